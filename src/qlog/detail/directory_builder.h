// Makes, merges and drops the directories over sealed files: storage.md RD-9, RD-10. Upkeep's thread.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "qlog/detail/queue_logs_impl.h"

namespace queen::qlog::detail {

class DirectoryBuilder {
 public:
  // `go_on` false ends a pass where it is.
  DirectoryBuilder(QueueLogsImpl& logs, std::function<bool()> go_on)
      : logs_(logs), go_on_(std::move(go_on)) {}

  // Looks at some logs, going on where the last pass stopped, and builds for at most one. Failures are
  // logged; without a directory answers are the same, only slower.
  void pass();

 private:
  // What one new directory takes the place of.
  struct Plan {
    SealedFiles files;         // that are in no directory
    SealedDirectories merged;  // older, whose rows it takes over
  };

  bool look_at(Log& log);
  void drop_stale(Log& log);
  static Plan plan(const SealedFiles& sealed, const SealedDirectories& directories);
  class MergedRows;
  Status build(Log& log, const Plan& plan);
  Status write(const std::string& path, DirectoryHeader& header, MergedRows& rows);
  void replace(Log& log, const SealedDirectories& old, std::shared_ptr<const SealedDirectory> built);

  QueueLogsImpl& logs_;
  std::function<bool()> go_on_;
  std::vector<LogId> round_;
  std::size_t at_ = 0;
  std::set<LogId> failed_;  // not tried again by this process
};

}  // namespace queen::qlog::detail
