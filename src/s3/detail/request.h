// What one S3 request looks like on the wire: address, headers, signature (s3-sink.md 17.1 to 17.3, HD-1).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "s3/detail/http_engine.h"
#include "s3/object_store.h"

namespace queen::s3 {

enum class Operation : std::uint8_t {
  put,
  multipart_create,
  multipart_part,
  multipart_complete,
  multipart_abort,
  head,
  get,
  list,
};
std::string_view name_of(Operation operation);

// The same for every attempt; signed anew for each.
struct S3Request {
  Operation operation = Operation::put;
  std::string key;  // empty: the bucket
  std::vector<NamedValue> query;
  std::shared_ptr<const Bytes> body_owner;
  BytesView body;
  std::string content_type;
  std::uint64_t answer_bytes_max = 1 << 20;
  // Filled by finish_request(): the hashes of the body.
  std::string body_sha256_hex;
  std::string content_md5;
};

// Computes what is the same for every attempt. Content-MD5 goes on what stores bytes (HD-2).
void finish_request(S3Request& request);

class RequestBuilder {
 public:
  explicit RequestBuilder(const ClientSettings& settings);
  HttpRequest build(const S3Request& request, std::int64_t wall_us) const;

 private:
  std::vector<NamedValue> headers(const S3Request& request, std::int64_t wall_us) const;
  std::string path(const S3Request& request) const;

  const ClientSettings& settings_;
  std::string origin_;  // scheme and host
  std::string host_;
};

}  // namespace queen::s3
