// put: one request, or a multipart upload of 16 MiB parts in sequence.
//
//   create ─▶ part 1 … part n ─▶ complete ─▶ done
//     ▲          │ NoSuchUpload     │ NoSuchUpload: HEAD, right size = done
//     └──────────┴──────────────────┘ else begin again under a new id
//   any other failure: abort once, then report.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "s3/detail/call.h"
#include "s3/detail/retry.h"
#include "s3/detail/xml.h"
#include "s3/digests.h"

namespace queen::s3 {
namespace {

constexpr std::size_t kPartBytes = 16 << 20;
constexpr int kUploadsMax = 3;  // upload ids that one call may use up

std::string without_quotes(std::string_view etag) {
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

bool is_md5_hex(std::string_view etag) {
  return etag.size() == 32 &&
         std::all_of(etag.begin(), etag.end(), [](unsigned char c) { return std::isxdigit(c); });
}

// Under a key of its own the store's ETag is no MD5 (HD-3).
bool is_encrypted_with_a_key(const HttpAnswer& answer) {
  return answer.header("x-amz-server-side-encryption").starts_with("aws:kms") ||
         !answer.header("x-amz-server-side-encryption-aws-kms-key-id").empty() ||
         !answer.header("x-amz-server-side-encryption-customer-algorithm").empty();
}

// The number behind the last `-` of a multipart ETag, nullopt when there is none.
std::optional<std::uint64_t> parts_named_by(std::string_view etag) {
  const std::size_t dash = etag.rfind('-');
  if (dash == std::string_view::npos || dash + 1 == etag.size()) return std::nullopt;
  std::uint64_t parts = 0;
  const auto [end, bad] = std::from_chars(etag.data() + dash + 1, etag.data() + etag.size(), parts);
  if (bad != std::errc() || end != etag.data() + etag.size()) return std::nullopt;
  return parts;
}

bool is_no_such_upload(const S3Error& error) {
  return error.s3_code == "NoSuchUpload";
}

// A 200 may carry an error document behind white space, and ends without any when the store dies half-way.
std::optional<S3Error> judge_completion(const ErrorScene& scene, const HttpAnswer& answer) {
  const bool success = answer.status >= 200 && answer.status <= 299;
  if (!success) return error_of(scene, answer);
  if (element_text(answer.body, "Code") || answer.body.find("<Error>") != Bytes::npos) {
    S3Error error = error_of(scene, answer);
    error.retriable = !is_no_such_upload(error);
    return error;
  }
  if (!element_text(answer.body, "ETag")) return body_error(scene, answer, "the answer names no ETag");
  return std::nullopt;
}

class PutCall final : public CallFor<PutDone> {
 public:
  PutCall(CallContext& context, std::string key, std::shared_ptr<const Bytes> body, PutOptions options,
          ObjectStore::Done<PutDone> done)
      : CallFor(context, key, std::move(done)),
        key_(std::move(key)),
        body_(std::move(body)),
        options_(std::move(options)) {}

 private:
  void start() override {
    if (body_->size() > context_.settings.multipart_threshold_bytes) return create_upload();
    put_whole();
  }

  S3Request request_for(Operation operation) const {
    S3Request request;
    request.operation = operation;
    request.key = key_;
    return request;
  }

  void put_whole() {
    S3Request request = request_for(Operation::put);
    request.content_type = options_.content_type;
    request.body_owner = body_;
    request.body = *body_;
    const auto judge = [md5 = hex_lower(md5_raw(*body_))](const ErrorScene& scene, const HttpAnswer& answer) {
      auto error = judge_status(scene, answer);
      if (error) return error;
      const std::string etag = lower_ascii(without_quotes(answer.header("etag")));
      if (is_md5_hex(etag) && !is_encrypted_with_a_key(answer) && etag != md5)
        error = integrity_error(scene, answer,
                                fmt::format("the store's ETag is {}, the body's MD5 {}", etag, md5));
      return error;
    };
    send(std::move(request), kAttemptsMax, judge, [this](Reply reply) {
      if (reply.error) return fail(std::move(*reply.error));
      succeed({without_quotes(reply.answer.header("etag"))});
    });
  }

  void create_upload() {
    ++uploads_;
    etags_.clear();
    S3Request request = request_for(Operation::multipart_create);
    request.query = {{"uploads", ""}};
    request.content_type = options_.content_type;
    const auto judge = [](const ErrorScene& scene, const HttpAnswer& answer) {
      auto error = judge_status(scene, answer);
      if (!error && element_text(answer.body, "UploadId").value_or("").empty())
        error = body_error(scene, answer, "the answer names no UploadId");
      return error;
    };
    send(std::move(request), kAttemptsMax, judge, [this](Reply reply) {
      if (reply.error) return fail(std::move(*reply.error));
      upload_id_ = *element_text(reply.answer.body, "UploadId");
      send_part();
    });
  }

  std::size_t parts() const { return (body_->size() + kPartBytes - 1) / kPartBytes; }

  // The next part; the last one may be shorter, never empty (HD-7).
  void send_part() {
    if (etags_.size() == parts()) return complete();
    if (!etags_.empty() && options_.between_parts) options_.between_parts();
    S3Request request = request_for(Operation::multipart_part);
    request.query = {{"partNumber", std::to_string(etags_.size() + 1)}, {"uploadId", upload_id_}};
    request.body_owner = body_;
    request.body = BytesView(*body_).substr(etags_.size() * kPartBytes, kPartBytes);
    const auto judge = [](const ErrorScene& scene, const HttpAnswer& answer) {
      auto error = judge_status(scene, answer);
      if (!error && answer.header("etag").empty())
        error = body_error(scene, answer, "the answer names no ETag");
      return error;
    };
    send(std::move(request), kAttemptsMax, judge, [this](Reply reply) {
      if (reply.error) return part_failed(std::move(*reply.error));
      etags_.emplace_back(reply.answer.header("etag"));
      send_part();
    });
  }

  void part_failed(S3Error error) {
    if (is_no_such_upload(error)) return begin_again(std::move(error));
    abort_then_fail(std::move(error));
  }

  // The upload id is gone already, so there is nothing to abort.
  void begin_again(S3Error error) {
    if (uploads_ < kUploadsMax) return create_upload();
    error.retriable = true;  // a later upload has an id of its own
    fail(std::move(error));
  }

  void complete() {
    std::string list = "<CompleteMultipartUpload>";
    for (std::size_t i = 0; i < etags_.size(); ++i)
      list += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1,
                          encode_references(etags_[i]));
    list += "</CompleteMultipartUpload>";
    S3Request request = request_for(Operation::multipart_complete);
    request.query = {{"uploadId", upload_id_}};
    request.content_type = "application/xml";
    const auto owner = std::make_shared<const Bytes>(std::move(list));
    request.body_owner = owner;
    request.body = *owner;
    send(std::move(request), kAttemptsMax, judge_completion,
         [this](Reply reply) { completed(std::move(reply)); });
  }

  void completed(Reply reply) {
    if (reply.error && is_no_such_upload(*reply.error)) return look_whether_complete(std::move(*reply.error));
    if (reply.error) return abort_then_fail(std::move(*reply.error));
    const std::string etag = without_quotes(*element_text(reply.answer.body, "ETag"));
    const auto named = parts_named_by(etag);
    if (!named || *named == parts()) return succeed({etag});
    const ErrorScene scene{context_.settings, Operation::multipart_complete, key_, context_.clock.wall_us()};
    S3Error error = integrity_error(
        scene, reply.answer, fmt::format("the store's ETag is {}, but {} parts were sent", etag, parts()));
    if (uploads_ < kIntegrityAttemptsMax) return wait_then(uploads_, [this] { create_upload(); });
    error.retriable = false;  // reported, never repeated for ever (HD-3)
    abort_then_fail(std::move(error));
  }

  // An earlier attempt at the completion may have worked without its answer reaching us.
  void look_whether_complete(S3Error error) {
    const auto judge = [](const ErrorScene& scene, const HttpAnswer& answer) {
      return answer.status == 404 ? std::nullopt : judge_status(scene, answer);
    };
    send(request_for(Operation::head), kAttemptsMax, judge,
         [this, error = std::move(error)](Reply reply) mutable {
           if (reply.error) return fail(std::move(*reply.error));
           if (reply.answer.status != 404 && content_length(reply.answer) == body_->size())
             return succeed({without_quotes(reply.answer.header("etag"))});
           begin_again(std::move(error));
         });
  }

  // Once, best effort: parts of an upload that nobody ends are kept, and paid for, by the store.
  void abort_then_fail(S3Error error) {
    S3Request request = request_for(Operation::multipart_abort);
    request.query = {{"uploadId", upload_id_}};
    send(std::move(request), 1, judge_status,
         [this, error = std::move(error)](Reply) mutable { fail(std::move(error)); });
  }

  const std::string key_;
  const std::shared_ptr<const Bytes> body_;
  PutOptions options_;
  int uploads_ = 0;
  std::string upload_id_;
  std::vector<std::string> etags_;  // of the parts done, as they came
};

}  // namespace

std::shared_ptr<Call> make_put_call(CallContext& context, std::string key, std::shared_ptr<const Bytes> body,
                                    PutOptions options, ObjectStore::Done<PutDone> done) {
  return std::make_shared<PutCall>(context, std::move(key), std::move(body), std::move(options),
                                   std::move(done));
}

}  // namespace queen::s3
