// Frees the files of dead records: storage.md 18.
#pragma once

#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "qlog/detail/judgement.h"
#include "qlog/detail/queue_logs_impl.h"
#include "qlog/detail/rewrite.h"
#include "qlog/upkeep.h"

namespace queen::qlog::detail {

// What a checkpoint on disk calls live is always on disk too: a dead file leaves the list that checkpoints
// write, and goes once one that was cut after that is durable; a copy replaces its file once one that was cut
// after the judgement is (RE-8, RE-9).
class Reclaimer {
 public:
  // All outlive the reclaimer.
  Reclaimer(QueueLogsImpl& logs, UpkeepHost& host, const UpkeepSettings& settings);

  // LogUpkeep::reclaim_pass.
  ReclaimReport pass();

 private:
  struct Doomed {
    LogId log;
    SealedFile file;
    std::uint64_t cuts_begun = 0;  // when the list spoke of it no more
    bool forgotten = false;        // readers do not find it any more
  };
  struct Copy {
    Rewrite rewrite;
    std::uint64_t cuts_begun = 0;  // when its records had been judged
    bool shown = false;
  };
  struct Memory {
    std::size_t dead_prefix = 0;
    std::int64_t look_again_us = 0;  // monotonic
  };

  bool stopped() { return logs_.poisoned() || !host_.go_on(); }
  std::int64_t now() const { return settings_.clock->mono_us(); }
  double min_dead_pct() const;

  void unlink_doomed();
  void forget_doomed();
  bool unlink(const Doomed& doomed);
  void finish_copy();
  void drop(const FileKey& key);

  void judge_unlisted();
  void walk();
  bool walk_log(Log& log);
  bool worth_a_look(const FileKey& key, const SealedFile& file);
  // False: the budget is spent.
  bool look_at(Log& log, const SealedFile& file);
  bool finish_judgement();
  void decide(const Judgement& judgement);
  void doom(Log& log, const SealedFile& file);
  void rewrite(Log& log, const Judgement& judgement);
  bool may_rewrite() const { return !copy_ && report_.rewritten == 0 && now() >= rewrite_not_before_us_; }

  QueueLogsImpl& logs_;
  UpkeepHost& host_;
  const UpkeepSettings& settings_;

  std::deque<std::pair<LogId, std::uint32_t>> unlisted_;  // taken first (RE-9)
  std::vector<Doomed> doomed_;
  std::optional<Copy> copy_;
  std::optional<Judgement> judgement_;  // interrupted by the end of the budget
  std::vector<FileKey> dropped_;        // in the pass before
  std::unordered_map<FileKey, Memory, FileKeyHash> memory_;
  std::int64_t rewrite_not_before_us_ = 0;

  // Where the walk over logs and files is.
  struct Walk {
    std::vector<LogId> logs;  // of this round, ascending
    std::size_t at = 0;
    std::uint32_t behind_file = 0;
  } walk_;

  // Of the pass that runs.
  ReclaimReport report_;
  ReclaimBudget budget_;
};

}  // namespace queen::qlog::detail
