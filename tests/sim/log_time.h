// When log time passed an instant, as far as it can be known from outside: by the world's clock. Log time is
// never behind the wall clock of the node nor behind a stamp that was applied, and runs as fast as the node's
// clock does.
#pragma once

#include <cstdint>
#include <vector>

#include "node.h"

namespace queen::sim {

class LogTime {
 public:
  explicit LogTime(SimNode& node, const World& world) : node_(node), world_(world) {}

  // To be called often: before calls and behind them, with the newest stamp that was answered, or 0.
  void note(std::int64_t stamp_us);
  // The newest stamp known.
  std::int64_t stamp_us() const { return marks_.empty() ? 0 : marks_.back().stamp_us; }

  // Log time is not beyond it now.
  std::int64_t at_most_us();

  // World times: before the first it had not passed `log_us`; from the second on it had. INT64_MAX: it may
  // never have.
  std::int64_t not_before(std::int64_t log_us) const;
  std::int64_t surely_by(std::int64_t log_us) const;

 private:
  struct Mark {
    std::int64_t at_us = 0;     // world time
    std::int64_t wall_us = 0;   // of the node
    std::int64_t ahead_us = 0;  // the most that the wall clock was ahead of a clock that never jumped
    std::int64_t stamp_us = 0;
  };

  SimNode& node_;
  const World& world_;
  std::vector<Mark> marks_;
};

}  // namespace queen::sim
