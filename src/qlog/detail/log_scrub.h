// LogScrub over the sealed files of all logs.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "qlog/detail/file_scan.h"
#include "qlog/detail/queue_logs_impl.h"
#include "qlog/scrub.h"

namespace queen::qlog::detail {

class LogScrubber final : public LogScrub {
 public:
  explicit LogScrubber(QueueLogsImpl& logs) : logs_(logs) {}
  ScrubStep step(std::uint64_t bytes_max) override;

 private:
  struct Target {
    LogId log;
    SealedFile file;
    FileKey key() const { return {log, file.id, file.generation}; }
  };
  // The file being read.
  struct Reading {
    Target target;
    std::unique_ptr<disk::File> file;
    std::unique_ptr<FileScanner> scanner;
    std::uint64_t dropped = 0;        // from the page cache, up to here
    std::uint64_t index_records = 0;  // that its index must hold,
    std::uint64_t index_sum = 0;      // and the sum of their hashes: they come in another order
  };

  void begin_round();
  bool current(const Target& target) const;
  bool open_next();
  // False: the file is done with.
  bool read_some(std::uint64_t bytes_max);
  static Status content_of(const Record& record);
  void read_record(const ScanResult& found, std::uint64_t position);
  void finish();
  bool index_fits() const;
  void remake_index();
  void damaged(std::uint64_t position, std::string_view what);

  QueueLogsImpl& logs_;
  std::vector<Target> round_;  // oldest first
  std::size_t at_ = 0;
  bool in_round_ = false;
  std::optional<Reading> reading_;
};

}  // namespace queen::qlog::detail
