#include "s3/detail/errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/text.h"
#include "s3/detail/xml.h"

namespace queen::s3 {
namespace {

constexpr std::size_t kQuotedCharsMax = 300;

constexpr std::array<std::string_view, 9> kRetriableCodes = {
    "RequestTimeout",       "InternalError", "SlowDown",       "ServiceUnavailable",
    "OperationAborted",     "BadDigest",     "IncompleteBody", "XAmzContentSHA256Mismatch",
    "RequestTimeTooSkewed",
};

// A server's own text on one line of readable characters.
std::string quoted(std::string_view text) {
  std::string line = trim(text);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return to_valid_utf8(std::string_view(line).substr(0, kQuotedCharsMax));
}

std::string text_of(const HttpAnswer& answer, std::string_view element) {
  return quoted(element_text(answer.body, element).value_or(""));
}

std::string_view permission_of(Operation operation) {
  switch (operation) {
    case Operation::head:
    case Operation::get:
      return "s3:GetObject (and s3:ListBucket, without which an absent object is refused too)";
    case Operation::list:
      return "s3:ListBucket";
    case Operation::multipart_abort:
      return "s3:AbortMultipartUpload";
    default:
      return "s3:PutObject";
  }
}

std::string skew_advice(const ErrorScene& scene, const HttpAnswer& answer) {
  std::string theirs = text_of(answer, "ServerTime");
  if (theirs.empty()) theirs = quoted(answer.header("date"));
  return fmt::format("the clock of this node says {}, that of the store {}: set the node's clock",
                     iso_micros(scene.wall_us), theirs.empty() ? "nothing" : theirs);
}

std::string region_advice(const ErrorScene& scene, const HttpAnswer& answer) {
  std::string region = quoted(answer.header("x-amz-bucket-region"));
  if (region.empty()) region = text_of(answer, "Region");
  const std::string endpoint = text_of(answer, "Endpoint");
  std::string advice = fmt::format("QUEEN_S3_REGION={} or QUEEN_S3_ENDPOINT={} does not fit the bucket",
                                   scene.settings.region, scene.settings.endpoint);
  if (!region.empty()) advice += fmt::format("; the store names region {}", region);
  if (!endpoint.empty()) advice += fmt::format("; the store names endpoint {}", endpoint);
  return advice + "; redirects are not followed";
}

std::string style_advice(const ErrorScene& scene) {
  return fmt::format("QUEEN_S3_PATH_STYLE={} may not fit this store: try {}", scene.settings.path_style,
                     !scene.settings.path_style);
}

bool is_one_of(std::string_view code, std::initializer_list<std::string_view> codes) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

std::string credentials_advice(std::string_view code) {
  if (code == "SignatureDoesNotMatch")
    return "QUEEN_S3_SECRET_KEY does not belong to QUEEN_S3_ACCESS_KEY, or a proxy changes the request";
  if (code == "InvalidAccessKeyId") return "the store does not know QUEEN_S3_ACCESS_KEY";
  if (is_one_of(code, {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}))
    return "the credentials have expired: set new QUEEN_S3_ACCESS_KEY and QUEEN_S3_SECRET_KEY";
  if (code == "InvalidToken")
    return "the credentials are temporary or have expired: set static QUEEN_S3_ACCESS_KEY and "
           "QUEEN_S3_SECRET_KEY";
  return {};
}

// The setting or permission to change, empty when nothing is known.
std::string advice_for(const ErrorScene& scene, const HttpAnswer& answer, std::string_view code) {
  const int status = answer.status;
  if (code == "RequestTimeTooSkewed") return skew_advice(scene, answer);
  if (std::string advice = credentials_advice(code); !advice.empty()) return advice;
  if (code == "NoSuchBucket")
    return fmt::format("QUEEN_S3_BUCKET={} does not exist there; {}", scene.settings.bucket,
                       style_advice(scene));
  if ((status >= 300 && status < 400) ||
      is_one_of(code, {"AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}))
    return region_advice(scene, answer);
  if (code.starts_with("KMS."))
    return "QUEEN_S3_SSE_KMS_KEY_ID must name a usable key; the permission is kms:GenerateDataKey "
           "(multipart: and kms:Decrypt)";
  if (status == 401 || status == 403) {
    return fmt::format(
        "the access key needs {} on the bucket {} and the objects under the prefix{}",
        permission_of(scene.operation), scene.settings.bucket,
        code.empty() ? "; the answer gives no reason, so the key, its secret or the clock may be wrong too"
                     : "");
  }
  if (is_one_of(code, {"MethodNotAllowed", "InvalidBucketName"}) || status == 405) return style_advice(scene);
  if (status == 429 || status == 503 || code == "SlowDown")
    return "throttled: the store asks to slow down; this clears by itself";
  return {};
}

std::string what_was_done(const ErrorScene& scene) {
  const auto& settings = scene.settings;
  if (scene.key.empty())
    return fmt::format("{} of bucket {} at {}", name_of(scene.operation), settings.bucket, settings.endpoint);
  return fmt::format("{} of {} in bucket {} at {}", name_of(scene.operation), scene.key, settings.bucket,
                     settings.endpoint);
}

std::string transport_advice(const ErrorScene& scene, Breakage breakage) {
  switch (breakage) {
    case Breakage::resolve:
      return "check the host of QUEEN_S3_ENDPOINT and the node's name service" +
             (scene.settings.path_style ? std::string() : "; " + style_advice(scene));
    case Breakage::connect:
      return "check QUEEN_S3_ENDPOINT, HTTPS_PROXY and the network";
    case Breakage::tls:
      return "the store's certificate is not trusted: put its authority into the system store or into "
             "SSL_CERT_FILE";
    case Breakage::stalled:
      return "no byte passed within the time limit";
    default:
      return {};
  }
}

std::string with_advice(std::string sentence, const std::string& advice) {
  return advice.empty() ? sentence : sentence + "; " + advice;
}

S3Error transport_error(const ErrorScene& scene, const HttpAnswer& answer) {
  const std::string_view kind = answer.breakage == Breakage::tls ? "TLS failure: " : "no answer: ";
  S3Error error;
  error.sentence =
      with_advice(fmt::format("{}: {}{}", what_was_done(scene), kind, quoted(answer.breakage_text)),
                  transport_advice(scene, answer.breakage));
  return error;
}

std::string request_id_of(const HttpAnswer& answer) {
  std::string id = quoted(answer.header("x-amz-request-id"));
  if (id.empty()) id = text_of(answer, "RequestId");
  return id.empty() ? "none" : id;
}

S3Error unreadable(const ErrorScene& scene, const HttpAnswer& answer, Failure failure, std::string_view why) {
  S3Error error;
  error.failure = failure;
  error.status = answer.status;
  error.sentence = fmt::format("{}: status {}, {}, request id {}", what_was_done(scene), answer.status, why,
                               request_id_of(answer));
  return error;
}

}  // namespace

bool is_retriable(int status, std::string_view s3_code) {
  if (std::find(kRetriableCodes.begin(), kRetriableCodes.end(), s3_code) != kRetriableCodes.end())
    return true;
  return status == 408 || status == 429 || status >= 500;
}

std::optional<std::int64_t> parse_retry_after_us(std::string_view value) {
  constexpr std::int64_t kSecondsMax = 86'400;
  std::int64_t seconds = 0;
  const auto [end, bad] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (bad != std::errc() || end != value.data() + value.size() || seconds < 0) return std::nullopt;
  return std::min(seconds, kSecondsMax) * 1'000'000;
}

S3Error error_of(const ErrorScene& scene, const HttpAnswer& answer) {
  if (answer.status == 0) return transport_error(scene, answer);
  S3Error error;
  error.failure = Failure::status;
  error.status = answer.status;
  error.s3_code = text_of(answer, "Code");
  // A 2xx gets here with an error document only: the store gave up half-way, which another attempt may not
  // meet.
  error.retriable = answer.status < 300 || is_retriable(answer.status, error.s3_code);
  error.throttled = answer.status == 429 || answer.status == 503 || error.s3_code == "SlowDown";
  error.retry_after_us = parse_retry_after_us(answer.header("retry-after"));
  const std::string message = text_of(answer, "Message");
  error.sentence =
      with_advice(fmt::format("{}: status {}{}{}{}, request id {}", what_was_done(scene), answer.status,
                              error.s3_code.empty() ? "" : " ", error.s3_code,
                              message.empty() ? "" : fmt::format(" ({})", message), request_id_of(answer)),
                  advice_for(scene, answer, error.s3_code));
  return error;
}

S3Error body_error(const ErrorScene& scene, const HttpAnswer& answer, std::string_view why) {
  return unreadable(scene, answer, Failure::body, why);
}

S3Error integrity_error(const ErrorScene& scene, const HttpAnswer& answer, std::string_view why) {
  return unreadable(scene, answer, Failure::integrity, why);
}

S3Error cancelled_error() {
  S3Error error;
  error.failure = Failure::cancelled;
  error.sentence = "the request was cancelled here";
  return error;
}

}  // namespace queen::s3
