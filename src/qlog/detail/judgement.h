// Which records of a sealed file are dead, from its index alone: storage.md RE-6, RE-7.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "qlog/detail/log.h"
#include "qlog/upkeep.h"

namespace queen::qlog::detail {

// What one pass may still ask and do.
struct ReclaimBudget {
  std::uint64_t look_ups_left = 0;
  std::int64_t deadline_us = 0;  // monotonic
  Clock* clock = nullptr;

  bool spent() const { return look_ups_left == 0 || clock->mono_us() >= deadline_us; }
};

// May be interrupted between any two questions and taken up again: what was dead stays dead, and what was
// judged alive and died since is only found the next time.
class Judgement {
 public:
  // `dead_prefix`: so many records from the front of the index are known to be dead.
  Judgement(LogId log, SealedFile file, std::shared_ptr<const SealedIndex> index, std::size_t dead_prefix);

  // Dead share of the messages, 0..100, guessed from 32 records.
  double sample_dead_pct(UpkeepHost& host, ReclaimBudget& budget) const;
  // Asks until all is known (true) or the budget is spent.
  bool go_on(UpkeepHost& host, ReclaimBudget& budget);

  LogId log() const { return log_; }
  const SealedFile& file() const { return file_; }
  std::size_t dead_prefix() const { return dead_prefix_; }
  bool any_dead() const { return any_dead_; }
  bool all_dead() const { return dead_prefix_ == index_->count(); }
  // Once all is known: dead share of the message bytes, 0..100.
  double dead_pct() const;
  // Once all is known: what a rewrite keeps, in file order.
  std::vector<IndexRecord> live() const;
  // The index was walked over as a whole, and nobody else needs all of it.
  void let_go() const { index_->let_go(); }

 private:
  struct Run {
    Pid pid;
    std::size_t from = 0, to = 0;  // of the index
    std::size_t dead_to = 0;
  };

  std::vector<Run> next_runs(std::size_t most) const;
  bool dead(const IndexRecord& record, const std::optional<UpkeepHost::Partition>& partition) const;
  void settle(Run run, const std::optional<UpkeepHost::Partition>& partition);

  const LogId log_;
  const SealedFile file_;
  const std::shared_ptr<const SealedIndex> index_;  // the cache's, kept while it is judged
  std::size_t dead_prefix_;
  std::size_t at_;  // judged up to here
  bool any_dead_;
  std::vector<Run> alive_;  // runs with something alive, what is dead in front of it cut off
};

}  // namespace queen::qlog::detail
