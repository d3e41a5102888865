// Signature version 4 of S3 requests, as pure functions (s3-sink.md 17.1, 17.2). Source:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace queen::s3 {

struct NamedValue {
  std::string name;
  std::string value;
};

// Every byte outside `A-Z a-z 0-9 - . _ ~ /` becomes %XX, upper-case hex, once; nothing is normalised.
std::string encode_path(std::string_view path);
// Names and values encoded likewise, `/` too; sorted by encoded name, then value; a parameter without a value
// is `name=`. The same text is signed and sent.
std::string canonical_query(const std::vector<NamedValue>& parameters);

struct SigningKey {  // views borrowed for the call
  std::string_view access_key;
  std::string_view secret_key;
  std::string_view region;
};

struct UnsignedRequest {
  std::string method;
  std::string path;                 // encoded, starts with `/`
  std::string query;                // canonical, may be empty
  std::vector<NamedValue> headers;  // all to be signed, any case and order; host and x-amz-* among them
  std::string payload_sha256_hex;
};

struct SignedText {
  std::string canonical_request;
  std::string string_to_sign;
  std::string authorization;  // the value of the header
};

// `wall_us`: µs since the epoch; the same instant must stand in `x-amz-date`.
SignedText sign(const UnsignedRequest& request, const SigningKey& key, std::int64_t wall_us);

}  // namespace queen::s3
