// Sealing by age and the removal of empty logs: storage.md 19.
#pragma once

#include <vector>

#include "qlog/detail/queue_logs_impl.h"
#include "qlog/upkeep.h"

namespace queen::qlog::detail {

class IdlePass {
 public:
  // All outlive the pass.
  IdlePass(QueueLogsImpl& logs, UpkeepHost& host, const UpkeepSettings& settings)
      : logs_(logs), host_(host), settings_(settings) {}

  // LogUpkeep::idle_pass.
  Result<IdleReport> run(std::int64_t now_us);

 private:
  struct Removal {
    LogId log;
    std::uint64_t cuts_begun = 0;  // when no list spoke of the log any more
  };

  bool of_one_queue(LogId log) const;
  bool old_enough(const ActiveFile& file, std::int64_t now_us) const;
  bool sealable(const ActiveFile& file) const;
  bool removable(const Log& log);
  Result<bool> seal(Log& log, std::int64_t now_us);
  bool plan_removal(Log& log);
  Status finish_removals(IdleReport& report);
  // False: another time. Errors: the logs are poisoned.
  Result<bool> finish_removal(const Removal& removal, IdleReport& report);
  Status rename_to_dead(const Log& log);
  Status note_removal();
  void sweep(LogId log);

  QueueLogsImpl& logs_;
  UpkeepHost& host_;
  const UpkeepSettings& settings_;
  std::vector<Removal> removals_;
  LogId next_;                  // where the next pass goes on
  bool removal_noted_ = false;  // durably
};

}  // namespace queen::qlog::detail
