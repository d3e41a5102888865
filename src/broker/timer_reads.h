// Pending timers as this node has them (api-state.md 3.3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "broker/state_reads.h"

namespace queen::broker {

struct TimerView {
  std::string key;
  store::TimerRow row;
};
struct TimerPage {
  std::vector<TimerView> timers;  // in byte order of their keys, without payloads
  bool truncated = false;         // there are more behind the last one
};

// Thread-safe. peek() and page() are bounded; count() walks what it counts (store_steps.h).
class TimerReads {
 public:
  explicit TimerReads(const StateReads& state) : store_(state.rows()) {}

  std::optional<TimerView> peek(std::string_view tenant, std::string_view queue, std::string_view key) const;
  // At most `limit` timers behind `after` (empty: from the first on), fewer when they are large.
  TimerPage page(std::string_view tenant, std::string_view queue, std::string_view after,
                 std::size_t limit) const;
  // Of the queue's timers whose key starts with `prefix`, which has no NUL.
  std::uint64_t count(std::string_view tenant, std::string_view queue, std::string_view prefix) const;

 private:
  const store::Store& store_;
};

}  // namespace queen::broker
