// What the leader remembers of a group's pending partitions: stretches of them in which none is ready before
// a known time, so that a pop steps over what is leased or held instead of reading it. Derived, never
// persistent: what is not remembered is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>

namespace queen::machine::detail {

class ReadyRuns {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  // Pending rows of one run; when one of them is due they are all read again.
  static constexpr std::size_t kRowsMax = 512;

  // A pending row of `pid` was written: it may be ready from `ready_at` on.
  void note(std::uint64_t pid, std::int64_t ready_at) {
    const auto run = holding(pid);
    if (run != runs_.end() && ready_at < run->second.earliest) run->second.earliest = ready_at;
  }

  // The first pid from `from` on, at most `end`, that is not known to be quiet at `now`. `earliest` falls to
  // the time at which the first of those stepped over may be ready.
  std::uint64_t step_over(std::uint64_t from, std::uint64_t end, std::int64_t now,
                          std::int64_t& earliest) const {
    auto run = holding(from);
    while (from < end && run != runs_.end() && run->first <= from && run->second.earliest > now) {
      if (run->second.earliest < earliest) earliest = run->second.earliest;
      from = run->second.end;
      ++run;
    }
    return from < end ? from : end;
  }
  // Where the next run begins behind `pid`; `end` when there is none before it.
  std::uint64_t next_run(std::uint64_t pid, std::uint64_t end) const {
    const auto next = runs_.upper_bound(pid);
    return next == runs_.end() || next->first > end ? end : next->first;
  }

  // [from, end) was read: `rows` pending rows, of which none is ready before `earliest`.
  void learn(std::uint64_t from, std::uint64_t end, std::int64_t earliest, std::size_t rows) {
    if (from >= end) return;
    auto at = holding(from);
    if (at == runs_.end()) at = runs_.lower_bound(from);
    while (at != runs_.end() && at->first < end) at = runs_.erase(at);
    Run run{end, earliest, rows};
    // Short neighbours become one, so that there are few of them.
    if (at != runs_.end() && at->first == end && at->second.rows + rows <= kRowsMax) {
      run = {at->second.end, earliest < at->second.earliest ? earliest : at->second.earliest,
             rows + at->second.rows};
      at = runs_.erase(at);
    }
    if (at != runs_.begin()) {
      Run& before = std::prev(at)->second;
      if (before.end == from && before.rows + run.rows <= kRowsMax) {
        before.end = run.end;
        before.rows += run.rows;
        if (run.earliest < before.earliest) before.earliest = run.earliest;
        return;
      }
    }
    runs_.emplace_hint(at, from, run);
  }

  void clear() { runs_.clear(); }
  std::size_t size() const { return runs_.size(); }

 private:
  struct Run {
    std::uint64_t end = 0;  // exclusive
    std::int64_t earliest = kNever;
    std::size_t rows = 0;  // when it was read
  };
  using Runs = std::map<std::uint64_t, Run>;  // by their first pid; they do not overlap

  Runs::iterator holding(std::uint64_t pid) { return holding_in(runs_, pid); }
  Runs::const_iterator holding(std::uint64_t pid) const { return holding_in(runs_, pid); }
  // The run that holds `pid`, or the end.
  template <class Map>
  static auto holding_in(Map& runs, std::uint64_t pid) -> decltype(runs.end()) {
    auto next = runs.upper_bound(pid);
    if (next == runs.begin()) return runs.end();
    --next;
    return next->second.end > pid ? next : runs.end();
  }

  Runs runs_;
};

}  // namespace queen::machine::detail
