#include "s3/detail/request.h"

#include <utility>

#include "base/text.h"
#include "s3/digests.h"

namespace queen::s3 {
namespace {

std::string_view method_of(Operation operation) {
  switch (operation) {
    case Operation::put:
    case Operation::multipart_part:
      return "PUT";
    case Operation::multipart_create:
    case Operation::multipart_complete:
      return "POST";
    case Operation::multipart_abort:
      return "DELETE";
    case Operation::head:
      return "HEAD";
    case Operation::get:
    case Operation::list:
      break;
  }
  return "GET";
}

}  // namespace

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::put:
      return "put";
    case Operation::multipart_create:
      return "multipart_create";
    case Operation::multipart_part:
      return "multipart_part";
    case Operation::multipart_complete:
      return "multipart_complete";
    case Operation::multipart_abort:
      return "multipart_abort";
    case Operation::head:
      return "head";
    case Operation::get:
      return "get";
    case Operation::list:
      break;
  }
  return "list";
}

void finish_request(S3Request& request) {
  request.body_sha256_hex = sha256_hex(request.body);
  const bool stores = request.operation == Operation::put || request.operation == Operation::multipart_part;
  if (stores) request.content_md5 = base64(md5_raw(request.body));
}

RequestBuilder::RequestBuilder(const ClientSettings& settings) : settings_(settings) {
  std::string_view endpoint = settings.endpoint;
  if (endpoint.ends_with('/')) endpoint.remove_suffix(1);
  const std::size_t scheme_end = endpoint.find("://");
  const std::size_t host_at = scheme_end == std::string_view::npos ? 0 : scheme_end + 3;
  host_ = settings.path_style ? std::string(endpoint.substr(host_at))
                              : settings.bucket + "." + std::string(endpoint.substr(host_at));
  origin_ = std::string(endpoint.substr(0, host_at)) + host_;
}

std::string RequestBuilder::path(const S3Request& request) const {
  std::string path = settings_.path_style ? "/" + settings_.bucket : "";
  if (!request.key.empty() || path.empty()) path += "/" + request.key;
  return encode_path(path);
}

std::vector<NamedValue> RequestBuilder::headers(const S3Request& request, std::int64_t wall_us) const {
  std::vector<NamedValue> out = {{"host", host_},
                                 {"x-amz-date", basic_utc_seconds(wall_us)},
                                 {"x-amz-content-sha256", request.body_sha256_hex}};
  if (!request.content_type.empty()) out.push_back({"content-type", request.content_type});
  if (!request.content_md5.empty()) out.push_back({"content-md5", request.content_md5});
  const bool creates =
      request.operation == Operation::put || request.operation == Operation::multipart_create;
  if (!creates || settings_.sse == Sse::off) return out;
  const bool kms = settings_.sse == Sse::aws_kms;
  out.push_back({"x-amz-server-side-encryption", kms ? "aws:kms" : "AES256"});
  if (kms && !settings_.sse_kms_key_id.empty())
    out.push_back({"x-amz-server-side-encryption-aws-kms-key-id", settings_.sse_kms_key_id});
  return out;
}

HttpRequest RequestBuilder::build(const S3Request& request, std::int64_t wall_us) const {
  UnsignedRequest plain{std::string(method_of(request.operation)), path(request),
                        canonical_query(request.query), headers(request, wall_us), request.body_sha256_hex};
  const SigningKey key{settings_.access_key, settings_.secret_key, settings_.region};
  HttpRequest out;
  out.url = origin_ + plain.path + (plain.query.empty() ? "" : "?" + plain.query);
  out.headers = plain.headers;
  out.headers.push_back({"authorization", sign(plain, key, wall_us).authorization});
  out.method = std::move(plain.method);
  out.body_owner = request.body_owner;
  out.body = request.body;
  out.answer_bytes_max = request.answer_bytes_max;
  return out;
}

}  // namespace queen::s3
