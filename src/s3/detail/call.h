// One call of ObjectStore under way: its requests one after another, each with its attempts. All of it runs
// on the engine's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "s3/detail/errors.h"
#include "s3/detail/http_engine.h"
#include "s3/detail/request.h"
#include "s3/object_store.h"

namespace queen::s3 {

class Call;

// What the calls of one client share. Owned by the client; outlives them.
struct CallContext {
  const ClientSettings& settings;
  RequestBuilder builder;
  Clock& clock;
  Random& random;
  Logger log;
  HttpEngine* engine = nullptr;
  std::set<std::shared_ptr<Call>> calls;  // under way
};

// The end of one request: an answer that was judged good, or an error after the last attempt.
struct Reply {
  HttpAnswer answer;
  std::optional<S3Error> error;
};

class Call : public std::enable_shared_from_this<Call> {
 public:
  // `subject` is the key, or the prefix of a listing.
  Call(CallContext& context, std::string subject) : context_(context), subject_(std::move(subject)) {}
  virtual ~Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void begin();
  // Ends it now, with `cancelled`. No request goes out any more.
  void cancel();
  const std::string& subject() const { return subject_; }
  // Ends it with `cancelled` before it began.
  void refuse() { deliver_error(cancelled_error()); }

 protected:
  // Says what is wrong with an answer, nullopt when nothing is.
  using Judge = UniqueFunction<std::optional<S3Error>(const ErrorScene&, const HttpAnswer&)>;
  using Next = UniqueFunction<void(Reply)>;

  virtual void start() = 0;
  virtual void deliver_error(S3Error error) = 0;

  // Sends with up to `attempts_max` attempts while `judge` finds retriable errors, then calls `next`. One at
  // a time.
  void send(S3Request request, int attempts_max, Judge judge, Next next);
  // Runs `work` after the wait that follows failed attempt `attempt`.
  void wait_then(int attempt, HttpEngine::Work work);
  // Takes the call out of the ones under way; deliver after it.
  void end();

  // 2xx is good, everything else is not.
  static std::optional<S3Error> judge_status(const ErrorScene& scene, const HttpAnswer& answer);

  CallContext& context_;

 private:
  void attempt();
  void answered(HttpAnswer answer);

  const std::string subject_;
  S3Request request_;
  Judge judge_;
  Next next_;
  int attempts_max_ = 0;
  int attempts_ = 0;
  std::int64_t attempt_wall_us_ = 0;
  std::uint64_t active_ = 0;  // transfer or timer, 0 = none
};

// A call that gives a T.
template <class T>
class CallFor : public Call {
 public:
  CallFor(CallContext& context, std::string subject, ObjectStore::Done<T> done)
      : Call(context, std::move(subject)), done_(std::move(done)) {}

 protected:
  void succeed(T value) {
    end();
    done_(Outcome<T>{std::move(value), std::nullopt});
  }
  void fail(S3Error error) {
    end();
    deliver_error(std::move(error));
  }
  void deliver_error(S3Error error) override { done_(Outcome<T>{std::nullopt, std::move(error)}); }

 private:
  ObjectStore::Done<T> done_;
};

std::shared_ptr<Call> make_put_call(CallContext& context, std::string key, std::shared_ptr<const Bytes> body,
                                    PutOptions options, ObjectStore::Done<PutDone> done);
std::shared_ptr<Call> make_get_call(CallContext& context, std::string key, std::uint64_t bytes_max,
                                    ObjectStore::Done<std::optional<Bytes>> done);
std::shared_ptr<Call> make_head_call(CallContext& context, std::string key,
                                     ObjectStore::Done<std::optional<std::uint64_t>> done);

struct ListRequest {
  std::string prefix;
  std::string start_after;
  int max_keys = 1000;
};
std::shared_ptr<Call> make_list_call(CallContext& context, ListRequest request,
                                     ObjectStore::Done<Listing> done);

// What `content-length` says, nullopt when it says no number.
std::optional<std::uint64_t> content_length(const HttpAnswer& answer);

}  // namespace queen::s3
