// The one table of engine errors: code, HTTP status, Retry-After. Other rooms answer through it, too.
#pragma once

#include <span>
#include <string_view>

#include "http/server.h"

namespace queen::api {

struct ErrorRow {
  std::string_view code;
  int status;
  int retry_after_seconds;  // 0: the header is not sent
};

// Ordered as documented. A code that is not listed is a refusal for good: 400.
std::span<const ErrorRow> error_table();
ErrorRow error_row(std::string_view code);

// `{"error":text,"code":code}` with the code's status and headers.
http::Response error_response(std::string_view code, std::string_view text);

}  // namespace queen::api
