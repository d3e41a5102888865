// get, head and list.
#include <algorithm>
#include <string_view>

#include "s3/detail/call.h"
#include "s3/detail/retry.h"
#include "s3/detail/xml.h"

namespace queen::s3 {
namespace {

constexpr std::uint64_t kListingBytesMax = 8 << 20;  // 1,000 keys of 1,024 characters, escaped

S3Request request_of(Operation operation, std::string key) {
  S3Request request;
  request.operation = operation;
  request.key = std::move(key);
  return request;
}

class GetCall final : public CallFor<std::optional<Bytes>> {
 public:
  GetCall(CallContext& context, std::string key, std::uint64_t bytes_max,
          ObjectStore::Done<std::optional<Bytes>> done)
      : CallFor(context, key, std::move(done)), request_(request_of(Operation::get, std::move(key))) {
    request_.answer_bytes_max = bytes_max;
  }

 private:
  void start() override {
    send(std::move(request_), kAttemptsMax, judge, [this](Reply reply) {
      if (reply.error) return fail(std::move(*reply.error));
      if (reply.answer.status == 404) return succeed(std::nullopt);
      succeed(std::move(reply.answer.body));
    });
  }

  // An absent key is an answer; an absent bucket is not.
  static std::optional<S3Error> judge(const ErrorScene& scene, const HttpAnswer& answer) {
    if (answer.status == 404 && element_text(answer.body, "Code") != "NoSuchBucket") return std::nullopt;
    if (answer.status == 200 && answer.too_large) {
      S3Error error = body_error(scene, answer, "the object is larger than it may be");
      error.retriable = false;  // it will not shrink
      return error;
    }
    return judge_status(scene, answer);
  }

  S3Request request_;
};

class HeadCall final : public CallFor<std::optional<std::uint64_t>> {
 public:
  HeadCall(CallContext& context, std::string key, ObjectStore::Done<std::optional<std::uint64_t>> done)
      : CallFor(context, key, std::move(done)), request_(request_of(Operation::head, std::move(key))) {}

 private:
  void start() override {
    send(std::move(request_), kAttemptsMax, judge, [this](Reply reply) {
      if (reply.error) return fail(std::move(*reply.error));
      if (reply.answer.status == 404) return succeed(std::nullopt);
      succeed(content_length(reply.answer));
    });
  }

  static std::optional<S3Error> judge(const ErrorScene& scene, const HttpAnswer& answer) {
    if (answer.status == 404) return std::nullopt;
    if (auto error = judge_status(scene, answer)) return error;
    if (!content_length(answer)) return body_error(scene, answer, "there is no content-length");
    return std::nullopt;
  }

  S3Request request_;
};

class ListCall final : public CallFor<Listing> {
 public:
  ListCall(CallContext& context, ListRequest wanted, ObjectStore::Done<Listing> done)
      : CallFor(context, wanted.prefix, std::move(done)), wanted_(std::move(wanted)) {}

 private:
  void start() override {
    S3Request request = request_of(Operation::list, {});
    request.answer_bytes_max = kListingBytesMax;
    request.query = {{"list-type", "2"},
                     {"max-keys", std::to_string(std::clamp(wanted_.max_keys, 1, 1000))},
                     {"prefix", wanted_.prefix}};
    if (!wanted_.start_after.empty()) request.query.push_back({"start-after", wanted_.start_after});
    send(std::move(request), kAttemptsMax, judge, [this](Reply reply) {
      if (reply.error) return fail(std::move(*reply.error));
      succeed(read(reply.answer.body));
    });
  }

  static std::optional<S3Error> judge(const ErrorScene& scene, const HttpAnswer& answer) {
    if (auto error = judge_status(scene, answer)) return error;
    if (answer.body.find("<ListBucketResult") == Bytes::npos ||
        answer.body.find("</ListBucketResult>") == Bytes::npos)
      return body_error(scene, answer, "the answer is no listing");
    return std::nullopt;
  }

  // Keys outside what was asked for are a server's mistake; a page of nothing else would be asked for for
  // ever, so it ends the listing (HD-10).
  Listing read(const Bytes& xml) {
    Listing listing;
    listing.keys = element_texts(xml, "Key");
    std::erase_if(listing.keys, [this](const std::string& key) {
      return !key.starts_with(wanted_.prefix) || key <= wanted_.start_after;
    });
    std::sort(listing.keys.begin(), listing.keys.end());
    listing.truncated = element_text(xml, "IsTruncated") == "true";
    if (listing.truncated && listing.keys.empty()) {
      context_.log.warn(
          "s3_list_does_not_advance",
          {{"bucket", context_.settings.bucket}, {"prefix", wanted_.prefix}, {"after", wanted_.start_after}});
      listing.truncated = false;
      listing.stuck = true;
    }
    return listing;
  }

  ListRequest wanted_;
};

}  // namespace

std::shared_ptr<Call> make_get_call(CallContext& context, std::string key, std::uint64_t bytes_max,
                                    ObjectStore::Done<std::optional<Bytes>> done) {
  return std::make_shared<GetCall>(context, std::move(key), bytes_max, std::move(done));
}

std::shared_ptr<Call> make_head_call(CallContext& context, std::string key,
                                     ObjectStore::Done<std::optional<std::uint64_t>> done) {
  return std::make_shared<HeadCall>(context, std::move(key), std::move(done));
}

std::shared_ptr<Call> make_list_call(CallContext& context, ListRequest request,
                                     ObjectStore::Done<Listing> done) {
  return std::make_shared<ListCall>(context, std::move(request), std::move(done));
}

}  // namespace queen::s3
