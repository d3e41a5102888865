// Arithmetic of rates and allowances. Nothing here is thread-safe or reads a clock.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

namespace queen::api {

// Tokens that come at a steady rate, up to a burst. Starts full.
class TokenBucket {
 public:
  // Takes `count` tokens; otherwise says in how many seconds (at least 1) it is worth asking again. A call
  // that asks for more than the bucket holds passes when it is full and leaves it in debt: charged whole, and
  // never refused for good.
  std::optional<std::int64_t> take(std::int64_t now_us, std::int64_t count, std::int64_t per_second,
                                   std::int64_t burst) {
    const auto room = static_cast<double>(burst);
    const auto rate = static_cast<double>(per_second);
    if (!filled_at_) tokens_ = room;
    if (filled_at_)
      tokens_ += static_cast<double>(std::max<std::int64_t>(0, now_us - *filled_at_)) * rate / 1e6;
    tokens_ = std::min(tokens_, room);
    filled_at_ = now_us;
    const double needed = std::min(static_cast<double>(count), room);
    constexpr double kRounding = 1e-6;  // of the sums above
    if (tokens_ + kRounding < needed)
      return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil((needed - tokens_) / rate)));
    tokens_ -= static_cast<double>(count);
    return std::nullopt;
  }

 private:
  double tokens_ = 0;
  std::optional<std::int64_t> filled_at_;
};

// How much of one kind a tenant holds, between two counts of its rows: the last count and what calls have
// taken since. What a call took counts twice when the count saw it, too, until the next one: never too
// little.
class Allowance {
 public:
  // Whether `adds` more fit under `cap` (0 = no cap). At the cap the tenant is blocked, and released once a
  // count is below `release_percent` of it. An allowance that was never counted fits nothing.
  bool fits(std::int64_t adds, std::int64_t cap, std::int64_t release_percent) {
    if (cap == 0 || adds == 0) return true;
    if (!counted_) return false;
    if (blocked_) return false;
    if (held() + adds <= cap) return true;
    // A call too large for what is left does not block the ones that fit.
    blocked_ = !below(cap, release_percent);
    return false;
  }
  void take(std::int64_t adds) { in_flight_ += adds; }
  // The call that took `adds` is over.
  void settle(std::int64_t adds, bool spent) {
    in_flight_ -= adds;
    if (spent) since_ += adds;
  }
  // A count begins: what was settled before is in it.
  void count_begins() {
    before_ += since_;
    since_ = 0;
  }
  void count_ends(std::int64_t held_now, std::int64_t cap, std::int64_t release_percent) {
    counted_ = held_now;
    before_ = 0;
    if (cap == 0 || below(cap, release_percent)) blocked_ = false;
  }
  bool counted() const { return counted_.has_value(); }
  bool above(std::int64_t cap, std::int64_t percent) const {
    return cap > 0 && (blocked_ || !below(cap, percent));
  }
  std::int64_t held() const { return counted_.value_or(0) + before_ + since_ + in_flight_; }

 private:
  // Below 1 of a small cap there is still 0.
  bool below(std::int64_t cap, std::int64_t percent) const {
    return static_cast<double>(held()) * 100 < static_cast<double>(cap) * static_cast<double>(percent);
  }
  std::optional<std::int64_t> counted_;
  std::int64_t before_ = 0, since_ = 0, in_flight_ = 0;
  bool blocked_ = false;
};

}  // namespace queen::api
