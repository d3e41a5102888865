#include "broker/boot.h"

#include <fmt/format.h>

#include "broker/placement.h"
#include "broker/reserve.h"
#include "broker/store_scrub.h"
#include "machine/apply.h"
#include "store/keys.h"
#include "store/row_versions.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

using store::Keyspace;

constexpr std::uint64_t kBootBytesMin = 8ULL << 20;

Error refuse(std::string text) {
  return Error{Errc::corrupt, std::move(text)};
}

std::string parent_of(const std::string& directory) {
  const auto last = directory.find_last_not_of('/');
  const auto slash = last == std::string::npos ? 0 : directory.rfind('/', last);
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : directory.substr(0, slash);
}

// Makes the directory when it is new, durably, and locks it for the life of the process (DIR-6).
Result<std::unique_ptr<disk::LockHeld>> lock_directory(const std::string& directory, disk::Disk& disk) {
  const auto failed = [&](const Error& error) {
    return refuse(fmt::format("{}: {}", directory, error.what));
  };
  const auto existed = disk.exists(directory);
  if (!existed) return failed(existed.error());
  if (auto made = disk.make_dirs(directory + "/store"); !made) return failed(made.error());
  if (auto synced = disk.sync_dir(directory); !synced) return failed(synced.error());
  if (!*existed) {
    if (auto synced = disk.sync_dir(parent_of(directory)); !synced) return failed(synced.error());
  }
  auto lock = disk.lock(directory + "/LOCK");
  if (lock) return std::move(*lock);
  if (lock.error().code != Errc::busy) return failed(lock.error());
  return refuse(fmt::format("{} is locked by another process", directory));
}

// On a volume without a byte left even a lock file that is mapped cannot be written: the reserve goes first.
void make_room(const Settings& settings, disk::Disk& disk, const Logger& log) {
  const auto use = disk.volume(settings.directory);
  if (use && use->free_bytes < kBootBytesMin)
    Reserve(disk, settings.directory, settings.reserve_bytes, log).release();
}

// What is promised rests on locks, syncs and renames that these are known to fake or lose (HD-33).
void warn_of_file_system(const std::string& directory, disk::Disk& disk, Logger log) {
  const std::string kind = disk.doubtful_file_system(directory);
  if (kind.empty()) return;
  log.warn("DATA_DIRECTORY_ON_A_DOUBTFUL_FILE_SYSTEM",
           {{"directory", directory},
            {"file_system", kind},
            {"why", "syncs and locks there may not hold what a log needs; use a local file system"}});
}

}  // namespace

Status check_owner(const std::string& directory, disk::Disk& disk) {
  const auto state = disk.exists(directory + "/raft/state.json");
  if (!state) return state.error();
  if (!*state) return {};
  return refuse(
      fmt::format("{} was written by the cluster replicator (it holds raft/state.json): start it with "
                  "QUEEN_RAFT_REPLICATOR=raft (openraft is another name of it), or use an empty directory",
                  directory));
}

Result<qlog::DurableState> durable_state(const store::Store& store) {
  qlog::DurableState out;
  const auto number = [&](std::string_view name) -> std::uint64_t {
    const auto bytes = store.get(Keyspace::meta, name);
    return bytes ? store::decode_meta_u64(*bytes).value_or(0) : 0;
  };
  out.durable_index = number(store::kMetaDurableIndex);
  out.qlog_durable_index = number(store::kMetaQlogDurableIndex);
  bool sound = true;
  store.scan(Keyspace::meta, store::kMetaQlogTailPrefix, {}, [&](BytesView key, BytesView value) {
    const auto log = store::meta_log_id(store::kMetaQlogTailPrefix, key);
    const auto tail = store::decode_meta_u64(value);
    sound = sound && log && tail;
    if (sound) out.tails[*log] = *tail;
    return sound;
  });
  store.scan(Keyspace::meta, store::kMetaQlogFilesPrefix, {}, [&](BytesView key, BytesView value) {
    const auto log = store::meta_log_id(store::kMetaQlogFilesPrefix, key);
    auto files = store::decode_meta_u32_list(value);
    sound = sound && log && files;
    if (sound) out.files[*log] = std::move(*files);
    return sound;
  });
  if (const auto bytes = store.get(Keyspace::meta, store::kMetaQlogLayout)) {
    const auto numbers = store::decode_meta_u32_list(*bytes);
    sound = sound && numbers && numbers->size() == 2;
    if (sound) out.layout = qlog::Layout{.shards = (*numbers)[0], .lanes = (*numbers)[1]};
  }
  if (!sound)
    return refuse(
        "store keyspace meta: a qlog_layout, qlog_tail or qlog_files row does not parse; restore a backup of "
        "the "
        "directory");
  const auto applied = number(store::kMetaAppliedIndex);
  if (applied != out.durable_index) {
    return refuse(
        fmt::format("store keyspace meta: applied_index {} and durable_index {} disagree; restore a backup "
                    "of the directory",
                    applied, out.durable_index));
  }
  return out;
}

Status check_version(const store::Store& store) {
  const auto bytes = store.get(Keyspace::meta, store::kMetaClusterVersion);
  if (!bytes) return {};
  const auto found = store::decode_meta_u64(*bytes);
  if (!found)
    return refuse("store keyspace meta: cluster_version does not parse; restore a backup of the directory");
  if (*found <= kClusterVersion) return {};
  return refuse(
      fmt::format("the store has cluster_version {} and this build supports {}: start the build that wrote "
                  "it, or a newer one",
                  *found, kClusterVersion));
}

namespace {

Status replay(Opened& opened, CrashPoints* crash_points, Clock& clock,
              const std::function<void(double)>& progress, Logger log) {
  const auto& report = opened.logs->recovery();
  std::uint64_t done = 0;
  std::int64_t said_at = clock.mono_us();
  auto status = opened.logs->replay([&](const qlog::RecoveredEntry& recovered) -> Status {
    auto entry = machine::decode_entry(recovered.entry);
    if (!entry)
      return refuse(
          fmt::format("entry {} cannot be replayed: {}", recovered.index.value, entry.error().what));
    auto applied = machine::apply_entry(*opened.store, recovered.index, recovered.term, *entry, crash_points);
    if (!applied)
      return refuse(
          fmt::format("entry {} cannot be replayed: {}", recovered.index.value, applied.error().what));
    ++done;
    const double share =
        static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(report.entries_to_replay, 1));
    if (progress) progress(share);
    if (clock.mono_us() - said_at >= 5'000'000) {
      said_at = clock.mono_us();
      log.info("replaying", {{"index", recovered.index.value},
                             {"of", report.last_index},
                             {"percent", static_cast<int>(share * 100)}});
    }
    return {};
  });
  if (!status) return status;
  const auto applied = machine::applied_index(*opened.store).value;
  if (applied == report.last_index) return {};
  return refuse(fmt::format("replay ended at entry {}, the logs at {}", applied, report.last_index));
}

// Data of an older build takes this one's version, so that the older one refuses it from now on. Data without
// a version was just made, or by the first builds.
Status agree_on_version(store::Store& store) {
  if (auto known = check_version(store); !known) return known;
  const Bytes ours = store::encode_meta_u64(kClusterVersion);
  if (store.get(Keyspace::meta, store::kMetaClusterVersion) != ours)
    store.put(Keyspace::meta, store::kMetaClusterVersion, ours);
  return {};
}

Result<bool> checkpoint_there(const Settings& settings) {
  const std::string directory = settings.directory + "/store";
  return settings.checkpoint_home != nullptr ? settings.checkpoint_home->exists(directory)
                                             : store::checkpoint_exists(directory);
}

Result<std::unique_ptr<store::CheckpointFile>> open_checkpoint(const Settings& settings, const Logger& log) {
  const std::string directory = settings.directory + "/store";
  return settings.checkpoint_home != nullptr
             ? settings.checkpoint_home->open(directory)
             : store::open_lmdb_checkpoint(directory, settings.map_bytes, log);
}

Status load_store(const Settings& settings, Opened& opened, Clock& clock, const Logger& log) {
  auto checkpoint = open_checkpoint(settings, log);
  if (!checkpoint) return std::move(checkpoint).error();
  opened.checkpoint = std::move(*checkpoint);
  if (auto loaded = opened.checkpoint->load(*opened.store); !loaded) return loaded;
  if (auto known = store::check_row_versions(*opened.store, settings.directory + "/store/data.mdb"); !known)
    return known;
  if (settings.store_verify) {
    if (auto verified = verify_store(*opened.store, *opened.checkpoint, clock, log); !verified)
      return verified;
  }
  auto durable = durable_state(*opened.store);
  if (!durable) return std::move(durable).error();
  opened.durable = std::move(*durable);
  return {};
}

// Into the next checkpoint: the files that hold the layout have no checksum.
void note_layout(Opened& opened) {
  if (opened.durable.layout) return;
  const auto& layout = opened.logs->layout();
  const auto gate = opened.store->write_gate();
  opened.store->put(Keyspace::meta, store::kMetaQlogLayout,
                    store::encode_meta_u32_list({layout.shards, layout.lanes}));
}

// A first checkpoint, without entries, before any record is written: from now on a missing file means that
// somebody removed it.
Status make_store(const Settings& settings, Opened& opened, const Logger& log) {
  if (!opened.checkpoint) {
    auto checkpoint = open_checkpoint(settings, log);
    if (!checkpoint) return std::move(checkpoint).error();
    opened.checkpoint = std::move(*checkpoint);
  }
  return opened.checkpoint->write(opened.store->cut());
}

}  // namespace

Result<Opened> open_directory(const Settings& settings, disk::Disk& disk, qlog::ParallelRunner& runner,
                              Clock& clock, const std::function<void(double)>& progress, Logger log) {
  Opened opened;
  auto lock = lock_directory(settings.directory, disk);
  if (!lock) return std::move(lock).error();
  make_room(settings, disk, log);
  warn_of_file_system(settings.directory, disk, log);
  opened.lock = std::move(*lock);
  if (auto owned = check_owner(settings.directory, disk); !owned) return std::move(owned).error();

  const std::int64_t started = clock.mono_us();
  const auto existed = checkpoint_there(settings);
  if (!existed) return existed.error();
  using store::Store;
  opened.store =
      std::make_unique<Store>(settings.store_verify_reads ? Store::VerifyReads::yes : Store::VerifyReads::no);
  if (*existed) {
    if (auto loaded = load_store(settings, opened, clock, log); !loaded) return std::move(loaded).error();
  }
  if (auto agreed = agree_on_version(*opened.store); !agreed) return std::move(agreed).error();
  // Opening makes the file, and a refusal must not: a missing store stays missing until the logs were found
  // complete.
  opened.durable.store_missing = !*existed || opened.checkpoint->fresh();

  auto options = settings.logs;
  options.directory = settings.directory + "/qlog";
  options.clock = &clock;
  options.crash_points = settings.crash_points;
  auto logs = qlog::QueueLogs::open(disk, runner, options, opened.durable, appends_of_entry(), log);
  if (!logs) return std::move(logs).error();
  opened.logs = std::move(*logs);
  note_layout(opened);
  if (opened.durable.store_missing) {
    if (auto made = make_store(settings, opened, log); !made) return std::move(made).error();
  }
  if (auto replayed = replay(opened, settings.crash_points, clock, progress, log); !replayed)
    return std::move(replayed).error();
  const auto& report = opened.logs->recovery();
  opened.last = EntryIndex{report.last_index};
  log.info("recovered", {{"applied", report.last_index},
                         {"durable", opened.durable.durable_index},
                         {"replayed", report.entries_to_replay},
                         {"cut", report.entries_cut},
                         {"logs", report.logs},
                         {"files", report.files},
                         {"scanned_bytes", report.bytes_scanned},
                         {"ms", (clock.mono_us() - started) / 1000}});
  return opened;
}

}  // namespace queen::broker
