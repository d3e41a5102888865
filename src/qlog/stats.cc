// What the logs tell about themselves, and the scrub that looks for more: storage.md 15.
#include <algorithm>

#include "qlog/detail/log_scrub.h"
#include "qlog/detail/paths.h"

namespace queen::qlog::detail {

LogStats QueueLogsImpl::stats() const {
  const IndexMaps maps = shared_->indexes.maps();
  std::uint64_t directories = 0, uncovered = 0, files = 0, bytes = 0;
  for (const auto& log : all_logs()) {
    const auto made = log->directories();
    directories += made->size();
    const auto sealed = log->sealed_files();
    files += sealed->size() + 1;  // and the one being written
    bytes += log->bytes_on_disk();
    uncovered += static_cast<std::uint64_t>(std::ranges::count_if(*sealed, [&](const auto& file) {
      return std::ranges::none_of(*made, [&](const auto& one) { return one->covers(file.id); });
    }));
  }
  return {.maps = maps.mapped,
          .maps_limit = maps.limit,
          .directories = directories,
          .files_without_directory = uncovered,
          .indexes_rebuilt = shared_->indexes.rebuilt(),
          .damaged_reads = shared_->damage.records(),
          .gaps = shared_->damage.gaps(),
          .scrubbed_bytes = shared_->scrubbed_bytes.load(),
          .scrub_rounds = shared_->scrub_rounds.load(),
          .files = files,
          .bytes = bytes};
}

std::unique_ptr<LogScrub> QueueLogsImpl::make_scrub() {
  return std::make_unique<LogScrubber>(*this);
}

std::vector<DamagedFile> QueueLogsImpl::damaged_files() const {
  std::vector<DamagedFile> there;
  for (auto& damaged : shared_->damage.files()) {
    const auto log = find(damaged.file.log);
    if (!log || !log->has(damaged.file)) {
      shared_->damage.good(damaged.file);
      continue;
    }
    there.push_back({.log = damaged.file.log,
                     .file_id = damaged.file.file_id,
                     .path = record_file(shared_->options.directory, damaged.file.log, damaged.file.file_id),
                     .position = damaged.position,
                     .what = std::move(damaged.what)});
  }
  return there;
}

}  // namespace queen::qlog::detail
