// Opening the logs of a node: storage.md 13 steps 4-10. First everything is read and judged, then merged, and
// only when nothing was refused the disk is changed.
#include <fmt/format.h>

#include <algorithm>

#include "base/planted_bugs.h"
#include "qlog/detail/layout_files.h"
#include "qlog/detail/paths.h"
#include "qlog/detail/queue_logs_impl.h"
#include "qlog/detail/settle.h"

namespace queen::qlog {
namespace detail {
namespace {

struct Directory {
  std::vector<LogId> logs;        // ascending
  std::vector<std::string> dead;  // paths
  std::vector<std::string> leftovers;
};

class Recovery {
 public:
  Recovery(std::unique_ptr<Shared> shared, ParallelRunner& runner, const DurableState& durable,
           const AppendsOf& appends_of)
      : shared_(std::move(shared)),
        runner_(runner),
        durable_(durable),
        appends_of_(appends_of),
        progress_(shared_->options.clock, shared_->log) {}

  Result<std::unique_ptr<QueueLogs>> run() {
    auto directory = list_directory();
    if (!directory) return std::move(directory).error();
    if (auto done = judge_layout(*directory); !done) return std::move(done).error();
    if (auto done = judge_removals(); !done) return std::move(done).error();
    auto images = inspect_all(directory->logs);
    if (!images) return std::move(images).error();
    if (auto done = check_reach(*images, durable_, root(), judge_); !done) return std::move(done).error();
    auto merged = merge(
        *images, durable_, appends_of_,
        [this](const ReplayEntry& at) { return read_entry_record(*shared_, at); }, progress_, judge_);
    if (!merged) return std::move(merged).error();

    if (planted(PlantedBug::qlog_reuses_last_index) && !merged->replay.empty()) merged->replay.pop_back();
    if (auto done = settle_root(*directory); !done) return std::move(done).error();
    report(*images, *merged);
    if (auto done = settle_all(std::move(*images), merged->cut); !done) return std::move(done).error();
    recovered_.replay = std::move(merged->replay);
    return std::unique_ptr<QueueLogs>(
        std::make_unique<QueueLogsImpl>(std::move(shared_), runner_, std::move(recovered_)));
  }

 private:
  const std::string& root() const { return shared_->options.directory; }
  disk::Disk& disk() { return shared_->disk; }

  Result<Directory> list_directory() {
    Directory found;
    const auto names = disk().list(root());
    if (!names && names.error().code == Errc::not_found) return found;
    if (!names) return names.error();
    for (const auto& [name, directory] : *names) {
      if (directory && name.ends_with(".dead")) found.dead.push_back(root() + "/" + name);
      if (!directory && name.ends_with(".tmp")) found.leftovers.push_back(root() + "/" + name);
      if (!directory) continue;
      if (const auto log = parse_log_directory(name)) found.logs.push_back(*log);
    }
    std::ranges::sort(found.logs);
    return found;
  }

  // The directory's own layout wins over the settings.
  Status judge_layout(const Directory& directory) {
    const bool has_logs = std::ranges::any_of(directory.logs, [](LogId log) { return log != kSystemLog; });
    const auto found = read_layout(disk(), root(), has_logs ? HasLogs::yes : HasLogs::no, durable_.layout);
    if (!found) return found.error();
    const Layout& wanted = shared_->options.layout_if_new;
    const Layout otherwise = durable_.layout.value_or(wanted);
    recovered_.layout = {.shards = found->shards.value_or(otherwise.shards),
                         .lanes = found->lanes.value_or(otherwise.lanes)};
    layout_is_new_ = !found->lanes || !found->shards;
    warn_when_other("QUEEN_QLOG_LANES", wanted.lanes, recovered_.layout.lanes);
    warn_when_other("QUEEN_QLOG_SHARDS", wanted.shards, recovered_.layout.shards);
    return {};
  }

  // Without the store the logs must be complete from entry 1, and with one of them removed they are not.
  Status judge_removals() {
    if (!durable_.store_missing) return {};
    const auto removed = disk().exists(removed_note_path(root()));
    if (!removed) return removed.error();
    if (!*removed) return {};
    return Error{
        Errc::corrupt,
        fmt::format("store/data.mdb is missing or empty, and {} says that logs were removed since the "
                    "directory was made, so that those that are left are not complete from entry 1: "
                    "restore data.mdb, or empty the directory; nothing was changed",
                    removed_note_path(root()))};
  }

  void warn_when_other(const char* variable, std::uint32_t wanted, std::uint32_t used) {
    if (wanted == used) return;
    shared_->log.warn("layout_of_directory_wins", {{"variable", variable}, {"set", wanted}, {"used", used}});
  }

  template <class Piece>
  void in_parallel(std::size_t count, const Piece& piece) {
    std::vector<UniqueFunction<void()>> pieces;
    pieces.reserve(count);
    for (std::size_t i = 0; i < count; ++i) pieces.emplace_back([&piece, i] { piece(i); });
    runner_.run_all(std::move(pieces));
  }

  Result<std::vector<LogImage>> inspect_all(const std::vector<LogId>& logs) {
    const InspectContext context{disk(), shared_->options, durable_, progress_, judge_};
    std::vector<Result<LogImage>> results(logs.size());
    in_parallel(logs.size(), [&](std::size_t i) { results[i] = inspect_log(context, logs[i]); });
    std::vector<LogImage> images;
    images.reserve(logs.size());
    for (auto& result : results) {
      if (!result) return std::move(result).error();
      images.push_back(std::move(*result));
    }
    return images;
  }

  void report(const std::vector<LogImage>& images, const Merged& merged) {
    RecoveryReport& report = recovered_.report;
    report.last_index = merged.cut - 1;
    if (planted(PlantedBug::qlog_reuses_last_index))
      report.last_index = durable_.durable_index + merged.replay.size();
    report.entries_to_replay = merged.replay.size();
    report.entries_cut = merged.entries_cut;
    report.replayed_tails = merged.tails;
    report.logs = images.size();
    for (const auto& image : images) report.files += image.files.size();
    report.bytes_scanned = progress_.bytes();
    shared_->log.info("qlog_recovered", {{"last_index", report.last_index},
                                         {"to_replay", report.entries_to_replay},
                                         {"cut", report.entries_cut},
                                         {"logs", report.logs},
                                         {"files", report.files},
                                         {"bytes", report.bytes_scanned}});
  }

  Status settle_root(const Directory& directory) {
    if (auto done = disk().make_dirs(root()); !done) return done;
    if (auto done = disk().sync_dir(parent_directory(root())); !done) return done;
    for (const auto& path : directory.leftovers)
      if (auto done = disk().remove_file(path); !done) return done;
    for (const auto& path : directory.dead)
      if (auto done = sweep_dead(disk(), path); !done) return done;
    if (layout_is_new_)
      if (auto done = write_layout(disk(), root(), recovered_.layout); !done) return done;
    return disk().sync_dir(root());
  }

  Status settle_all(std::vector<LogImage> images, std::uint64_t cut) {
    std::vector<Result<LogState>> results(images.size());
    std::vector<LogId> ids;
    for (const auto& image : images) ids.push_back(image.id);
    std::vector<std::uint64_t> cuts(images.size(), cut);
    if (planted(PlantedBug::qlog_forgets_a_cut)) {
      const auto one =
          std::ranges::find_if(images, [&](const auto& image) { return image.highest_seq >= cut; });
      if (one != images.end()) cuts[static_cast<std::size_t>(one - images.begin())] = one->highest_seq + 1;
    }
    in_parallel(images.size(), [&](std::size_t i) {
      results[i] = settle_log(disk(), root(), std::move(images[i]), cuts[i]);
    });
    // What was opened to judge the logs shows the same files, but none of it is needed any more.
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i]) return std::move(results[i]).error();
      if (results[i]->active.id == 0) continue;
      auto log = std::make_shared<Log>(*shared_, ids[i], std::move(*results[i]));
      const auto row = durable_.files.find(ids[i]);
      if (row == durable_.files.end() || row->second != log->listed_files())
        recovered_.changed_files.insert(ids[i]);
      recovered_.logs.emplace(ids[i], std::move(log));
    }
    return {};
  }

  std::unique_ptr<Shared> shared_;
  ParallelRunner& runner_;
  const DurableState& durable_;
  const AppendsOf& appends_of_;
  Progress progress_;
  FirstStops judge_;  // of several threads, and holds nothing
  QueueLogsImpl::Recovered recovered_;
  bool layout_is_new_ = false;
};

}  // namespace
}  // namespace detail

Result<std::unique_ptr<QueueLogs>> QueueLogs::open(disk::Disk& disk, ParallelRunner& runner, Options options,
                                                   const DurableState& durable, const AppendsOf& appends_of,
                                                   Logger log) {
  if (options.segment_bytes <= kFileHeaderBytes)
    return Error{Errc::invalid,
                 fmt::format("segment_bytes {} is below {}", options.segment_bytes, kFileHeaderBytes + 1)};
  auto shared = std::make_unique<detail::Shared>(disk, std::move(options), std::move(log));
  return detail::Recovery(std::move(shared), runner, durable, appends_of).run();
}

}  // namespace queen::qlog
