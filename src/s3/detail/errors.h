// From an answer to an S3Error: its class, whether to try again, and a sentence that says what to change
// (s3-sink.md 3.3, HD-4, HD-8).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "s3/detail/request.h"

namespace queen::s3 {

struct ErrorScene {
  const ClientSettings& settings;
  Operation operation;
  std::string_view key;
  std::int64_t wall_us;  // when the attempt was made
};

// For an answer that is no success (or none at all); also for a 200 that carries an error document.
S3Error error_of(const ErrorScene& scene, const HttpAnswer& answer);
// For a success that cannot be read.
S3Error body_error(const ErrorScene& scene, const HttpAnswer& answer, std::string_view why);
S3Error integrity_error(const ErrorScene& scene, const HttpAnswer& answer, std::string_view why);
S3Error cancelled_error();

// Retriable whatever the status (HD-4), else 408, 429 and 500 up.
bool is_retriable(int status, std::string_view s3_code);
// Only the form of whole seconds, at most a day; µs.
std::optional<std::int64_t> parse_retry_after_us(std::string_view value);

}  // namespace queen::s3
