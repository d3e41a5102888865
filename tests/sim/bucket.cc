#include "bucket.h"

#include <algorithm>
#include <array>

namespace queen::sim {
namespace {

constexpr std::int64_t kSlowUs = 40 * kSecondUs;
constexpr std::int64_t kProgressUs = 30 * kSecondUs;

struct Refused {
  int status;
  const char* code;
  bool retriable;
};
// What the real client makes of answers that it gave up on after its own attempts.
constexpr std::array kRefusals = {
    Refused{503, "SlowDown", true},
    Refused{500, "InternalError", true},
    Refused{400, "RequestTimeout", true},
    Refused{409, "OperationAborted", true},
    Refused{403, "RequestTimeTooSkewed", true},
    Refused{503, "ServiceUnavailable", true},
    Refused{403, "AccessDenied", false},
};

s3::S3Error refusal(Dice& dice) {
  const Refused& drawn = kRefusals[dice.below(kRefusals.size())];
  return {.failure = s3::Failure::status,
          .retriable = drawn.retriable,
          .status = drawn.status,
          .s3_code = drawn.code,
          .sentence = drawn.code,
          .retry_after_us = std::nullopt};
}

s3::S3Error no_answer(s3::Failure failure) {
  return {.failure = failure,
          .retriable = true,
          .status = 0,
          .s3_code = {},
          .sentence = failure == s3::Failure::cancelled ? "cancelled" : "no answer",
          .retry_after_us = std::nullopt};
}

template <class T>
s3::Outcome<T> failed(s3::S3Error error) {
  return {.value = std::nullopt, .error = std::move(error)};
}

class BucketWay final : public s3::ObjectStore {
 public:
  BucketWay(World& world, SimBucket& bucket, Executor& network, std::shared_ptr<const bool> alive)
      : world_(world), bucket_(bucket), network_(network), alive_(std::move(alive)) {}
  // Whoever waits is answered, what is under way goes on.
  ~BucketWay() override {
    if (*alive_) cancel();
    *here_ = false;
  }

  void put(std::string key, std::shared_ptr<const Bytes> body, s3::PutOptions options,
           Done<s3::PutDone> done) override {
    if (options.between_parts && body->size() > kPartBytes) options.between_parts();
    if (!*alive_) return;
    const auto twice = [this, key, body] {
      network_.post_after(delay(), [bucket = &bucket_, key, body] { bucket->put(key, body); });
    };
    if (world_.dice().chance(bucket_.faults.twice_pct)) twice();
    send<s3::PutDone>(
        key,
        [bucket = &bucket_, key, body] {
          bucket->put(key, body);
          return s3::PutDone{"etag"};
        },
        std::move(done));
  }
  void get(std::string key, std::uint64_t bytes_max, Done<std::optional<Bytes>> done) override {
    send<std::optional<Bytes>>(
        key,
        [bucket = &bucket_, key, bytes_max]() -> std::optional<Bytes> {
          const auto found = bucket->objects().find(key);
          if (found == bucket->objects().end() || found->second->size() > bytes_max) return std::nullopt;
          return *found->second;
        },
        std::move(done));
  }
  void head(std::string key, Done<std::optional<std::uint64_t>> done) override {
    send<std::optional<std::uint64_t>>(
        key,
        [bucket = &bucket_, key]() -> std::optional<std::uint64_t> {
          const auto found = bucket->objects().find(key);
          if (found == bucket->objects().end()) return std::nullopt;
          return found->second->size();
        },
        std::move(done));
  }
  void list(std::string prefix, std::string start_after, int max_keys, Done<s3::Listing> done) override {
    send<s3::Listing>(
        prefix,
        [bucket = &bucket_, prefix, start_after, max_keys] {
          s3::Listing listing;
          for (auto at = bucket->objects().upper_bound(std::max(start_after, prefix));
               at != bucket->objects().end() && at->first.starts_with(prefix); ++at) {
            if (listing.keys.size() == static_cast<std::size_t>(max_keys)) {
              listing.truncated = true;
              break;
            }
            listing.keys.push_back(at->first);
          }
          return listing;
        },
        std::move(done));
  }
  void cancel() override {
    cancelled_ = true;
    for (auto& [number, request] : std::exchange(under_way_, {})) request.give_up();
  }
  void resume() override { cancelled_ = false; }
  void cancel_keys(const std::vector<std::string>& prefixes) override {
    std::vector<std::function<void()>> ended;
    for (auto at = under_way_.begin(); at != under_way_.end();) {
      const auto& key = at->second.key;
      const bool meant = std::any_of(prefixes.begin(), prefixes.end(),
                                     [&](const auto& prefix) { return key.starts_with(prefix); });
      if (meant) ended.push_back(std::move(at->second.give_up));
      at = meant ? under_way_.erase(at) : std::next(at);
    }
    for (auto& give_up : ended) give_up();
  }

 private:
  static constexpr std::size_t kPartBytes = 16ULL << 20;

  std::int64_t delay() {
    Dice& dice = world_.dice();
    if (dice.chance(bucket_.faults.slow_pct)) return dice.between(0, kSlowUs);
    return dice.between(0, bucket_.faults.delay_us_max);
  }

  template <class T, class Act>
  void send(std::string key, Act act, Done<T> done) {
    if (!*alive_) return;
    if (cancelled_) {
      network_.post(
          [done = std::move(done)]() mutable { done(failed<T>(no_answer(s3::Failure::cancelled))); });
      return;
    }
    const std::uint64_t number = ++sent_;
    const auto waiting = std::make_shared<Done<T>>(std::move(done));
    under_way_[number] = {std::move(key),
                          [waiting] { (*waiting)(failed<T>(no_answer(s3::Failure::cancelled))); }};
    // Whoever answers first takes the caller out; the request itself goes on.
    auto answer = [this, number, waiting, alive = alive_, here = here_](s3::Outcome<T> outcome) {
      if (!*alive || !*here || under_way_.erase(number) == 0) return;
      (*waiting)(std::move(outcome));
    };
    Dice& dice = world_.dice();
    const std::int64_t there = delay(), back = delay();
    const bool refused = dice.chance(bucket_.faults.refused_pct);
    const bool lost = dice.chance(bucket_.faults.lost_answer_pct);
    const s3::S3Error why = refused ? refusal(dice) : no_answer(s3::Failure::transport);
    network_.post_after(there, [network = &network_, act = std::move(act), answer, refused, lost, why, back,
                                alive = alive_]() mutable {
      s3::Outcome<T> outcome;
      if (refused) {
        outcome.error = why;
      } else {
        outcome.value = act();
        if (lost) outcome = failed<T>(why);
      }
      if (!*alive) return;
      network->post_after(back,
                          [answer, outcome = std::move(outcome)]() mutable { answer(std::move(outcome)); });
    });
    network_.post_after(kProgressUs,
                        [answer]() mutable { answer(failed<T>(no_answer(s3::Failure::transport))); });
  }

  World& world_;
  SimBucket& bucket_;
  Executor& network_;
  std::shared_ptr<const bool> alive_;  // the node
  const std::shared_ptr<bool> here_ = std::make_shared<bool>(true);
  bool cancelled_ = false;
  std::uint64_t sent_ = 0;
  struct Request {
    std::string key;
    std::function<void()> give_up;
  };
  std::map<std::uint64_t, Request> under_way_;
};

}  // namespace

void SimBucket::put(const std::string& key, std::shared_ptr<const Bytes> body) {
  puts_.push_back({key, body});
  if (on_put) on_put(key, *body);
  objects_[key] = std::move(body);
}

std::unique_ptr<s3::ObjectStore> make_bucket_way(World& world, SimBucket& bucket, Executor& network,
                                                 std::shared_ptr<const bool> alive) {
  return std::make_unique<BucketWay>(world, bucket, network, std::move(alive));
}

}  // namespace queen::sim
