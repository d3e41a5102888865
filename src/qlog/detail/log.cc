// The writer's and the syncer's side of one log.
#include "qlog/detail/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/invariant.h"
#include "base/planted_bugs.h"
#include "qlog/detail/paths.h"
#include "qlog/record.h"

namespace queen::qlog::detail {
namespace {

constexpr std::uint64_t kPreallocBelowBytesPerSync = 32ULL << 10;
constexpr std::uint64_t kPreallocRunMin = 64ULL << 10;
constexpr std::size_t kZeroChunkBytes = 64ULL << 10;

constexpr std::array<char, kZeroChunkBytes> kZeros{};

constexpr std::int64_t kFirstPauseUs = 1'000;
constexpr std::int64_t kPauseUsMax = 250'000;
constexpr std::int64_t kPausesUsMax = 10'000'000;

}  // namespace

bool out_of_descriptors(const Error& error) {
  return error.sys_errno == EMFILE || error.sys_errno == ENFILE;
}

Shared::Shared(disk::Disk& disk_in, Options options_in, Logger log_in, disk::Open opens_in)
    : disk(disk_in),
      options(std::move(options_in)),
      opens(opens_in),
      files(options.fd_cache),
      log(std::move(log_in)),
      indexes(disk, log, options.maps_limit),
      damage(log, options.clock) {}

void Shared::pin(const FileKey& key, std::shared_ptr<disk::File> file) {
  const std::lock_guard held(pin_mutex_);
  pin_key_ = key;
  std::swap(pin_, file);  // the old one is closed after the lock is released
}

std::shared_ptr<disk::File> Shared::pinned(const FileKey& key) {
  const std::lock_guard held(pin_mutex_);
  return pin_ && pin_key_ == key ? pin_ : nullptr;
}

void Shared::drop(const FileKey& key) {
  files.erase(key);
  indexes.erase(key);
  damage.good(key);
}

Result<std::shared_ptr<disk::File>> Shared::open_file(const FileKey& key) {
  if (auto held = files.find(key)) return held;
  if (auto held = pinned(key)) return held;
  const std::string path = record_file(options.directory, key.log, key.file_id);
  auto file = open(path, opens);
  if (!file && file.error().code == Errc::busy) return std::move(file).error();
  if (!file) return Error{Errc::unavailable, file.error().what, file.error().sys_errno};
  return files.insert(key, std::move(*file), 1);
}

template <class Call>
auto Shared::without_descriptors_waits(const std::string& path, const Call& call) -> decltype(call()) {
  auto done = call();
  std::int64_t waited_us = 0;
  for (std::int64_t wait_us = kFirstPauseUs; !done && out_of_descriptors(done.error());
       wait_us = std::min(2 * wait_us, kPauseUsMax)) {
    files.clear();
    done = call();
    if (done || !out_of_descriptors(done.error())) break;
    if (!options.pause || waited_us >= kPausesUsMax || !waits_.load(std::memory_order_relaxed))
      return Error{Errc::busy, done.error().what, done.error().sys_errno};
    if (waited_us == 0) log.warn("descriptors_exhausted", {{"path", path}, {"why", done.error().what}});
    options.pause(wait_us);
    waited_us += wait_us;
    done = call();
  }
  return done;
}

Result<std::unique_ptr<disk::File>> Shared::open(const std::string& path, disk::Open mode) {
  return without_descriptors_waits(path, [&] { return disk.open(path, mode); });
}

Status Shared::sync_dir(const std::string& directory) {
  return without_descriptors_waits(directory, [&] { return disk.sync_dir(directory); });
}

Log::Log(Shared& shared, LogId id, LogState state)
    : shared_(shared),
      id_(id),
      first_generation_(state.active.id == 0 ? shared.next_generation() : 0),
      disk_bytes_(state.active.length),
      sealed_(std::make_shared<SealedFiles>(std::move(state.sealed))),
      directories_(std::make_shared<SealedDirectories>(std::move(state.directories))),
      doomed_(std::move(state.unlisted)),
      active_(std::move(state.active)) {
  shared_.indexes.count_maps(static_cast<std::int64_t>(directories_->size()));
}

Log::~Log() {
  shared_.indexes.count_maps(-static_cast<std::int64_t>(directories_->size()));
}

Result<std::shared_ptr<disk::File>> Log::make_file(std::uint32_t file_id, std::uint64_t first_seq) {
  const std::string path = record_file(shared_.options.directory, id_, file_id);
  auto file = shared_.open(path, disk::Open::create);
  if (!file) return std::move(file).error();
  auto done = (*file)->truncate(0);
  if (done) done = (*file)->pwrite(0, encode_file_header({.file_id = file_id, .first_seq = first_seq}));
  if (done) done = (*file)->sync();
  if (done && !planted(PlantedBug::qlog_syncs_no_directory)) done = shared_.sync_dir(parent_directory(path));
  if (done) return std::shared_ptr<disk::File>(std::move(*file));
  if (done.error().code == Errc::full || done.error().code == Errc::busy)
    ignore(shared_.disk.remove_file(path), "a file without records is removed at the next open as well");
  return std::move(done).error();
}

Status Log::create(std::uint64_t first_seq, std::int64_t now_us) {
  const std::string& root = shared_.options.directory;
  if (auto done = shared_.disk.make_dirs(log_directory(root, id_)); !done) return done;
  auto file = make_file(1, first_seq);
  if (!file) return std::move(file).error();
  if (auto done = shared_.sync_dir(root); !done) return done;
  shared_.files.insert(first_key(1), std::move(*file), 1);
  const std::lock_guard held(mutex_);
  active_ = {.id = 1,
             .length = kFileHeaderBytes,
             .first_seq = first_seq,
             .highest_seq = first_seq - 1,
             .opened_us = now_us,
             .oldest_us = 0,
             .index = {}};
  disk_bytes_ = kFileHeaderBytes;
  return {};
}

bool Log::must_roll() const {
  return active_.length >= shared_.options.segment_bytes || active_.index.size() >= ActiveIndex::kRecordsMax;
}

Status Log::open_to_write() {
  auto file = shared_.open_file(first_key(active_.id));
  if (!file) return std::move(file).error();
  writing_ = std::move(*file);
  return {};
}

Status Log::trim() {
  if (disk_bytes_ == active_.length) return {};
  if (auto done = open_to_write(); !done) return done;
  if (auto done = writing_->truncate(active_.length); !done) return done;
  if (auto done = writing_->sync(); !done) return done;
  disk_bytes_ = active_.length;
  return {};
}

Status Log::take_next_file(std::uint64_t first_seq) {
  if (!next_id_) {
    auto made = make_file(active_.id + 1, first_seq);
    if (!made) return std::move(made).error();
    writing_ = std::move(*made);
    return {};
  }
  auto file = shared_.open_file(first_key(*next_id_));
  if (!file) return std::move(file).error();
  const Bytes header = encode_file_header({.file_id = *next_id_, .first_seq = first_seq});
  if (auto done = (*file)->pwrite(0, header); !done) return done;
  if (auto done = (*file)->sync(); !done) return done;
  writing_ = std::move(*file);
  return {};
}

Status Log::roll(std::uint64_t first_seq, std::int64_t now_us) {
  INVARIANT(!has_unsynced(), "log {} rolls with unsynced records", id_.value);
  if (auto done = trim(); !done) return done;
  if (auto done = open_to_write(); !done) return done;
  // Clean already through sync(); once more, because what is sealed is never looked at again (QL-18).
  if (auto done = writing_->sync(); !done) return done;
  reach_point(shared_.options.crash_points, CrashPoint::seg_rolled);
  shared_.indexes.put(first_key(active_.id), index_path(shared_.options.directory, id_, active_.id),
                      active_.length, active_.index.encode(active_.id, active_.length));
  reach_point(shared_.options.crash_points, CrashPoint::seg_qidx_written);
  if (auto done = take_next_file(first_seq); !done) return done;

  const std::uint32_t next = active_.id + 1;
  shared_.files.insert(first_key(next), std::move(writing_), 1);
  writing_.reset();
  auto sealed = std::make_shared<SealedFiles>(*sealed_);
  sealed->push_back({.id = active_.id,
                     .bytes = active_.length,
                     .first_seq = active_.first_seq,
                     .highest_seq = active_.highest_seq,
                     .generation = first_generation_});
  next_id_.reset();
  LogState::Active outgoing{.id = next,
                            .length = kFileHeaderBytes,
                            .first_seq = first_seq,
                            .highest_seq = std::max(active_.highest_seq, first_seq - 1),
                            .opened_us = now_us,
                            .oldest_us = 0,
                            .index = {}};
  const std::lock_guard held(mutex_);
  std::swap(outgoing, active_);  // the old index is destroyed after the lock is released
  sealed_ = std::move(sealed);
  disk_bytes_ = kFileHeaderBytes;
  return {};
}

void Log::precreate() {
  if (!shared_.options.precreate || next_id_ || active_.length < shared_.options.segment_bytes / 2) return;
  auto made = make_file(active_.id + 1, kUnusedFirstSeq);
  if (!made) return;
  next_id_ = active_.id + 1;
  shared_.files.insert(first_key(*next_id_), std::move(*made), 1);
}

Status Log::write(BytesView bytes) {
  written_bytes_ = bytes.size();
  if (auto done = writing_->pwrite(active_.length, bytes); !done) return done;
  reach_point(shared_.options.crash_points, CrashPoint::qlog_record_written);
  disk_bytes_ = std::max<std::uint64_t>(disk_bytes_, active_.length + bytes.size());
  preallocate();
  return {};
}

std::uint64_t Log::zeros_due() const {
  const Options& options = shared_.options;
  if (options.prealloc_bytes == 0) return 0;
  std::uint64_t syncs = 0, average = 0;
  {
    const std::lock_guard held(mutex_);
    syncs = sync_.count;
    average = sync_.average_bytes;
  }
  if (syncs == 0 || syncs < options.prealloc_min_syncs || average >= kPreallocBelowBytesPerSync) return 0;
  const std::uint64_t least = std::min(kPreallocRunMin, options.prealloc_bytes);
  const std::uint64_t run =
      options.prealloc_min_syncs == 0
          ? options.prealloc_bytes
          : std::clamp<std::uint64_t>(options.prealloc_min_syncs * average, least, options.prealloc_bytes);
  const std::uint64_t end = active_.length + written_bytes_;
  // A quarter of the run, not of the chunk: a run that is shorter than that would be refilled by every group,
  // and each refill is the change of length that this is to avoid.
  if (disk_bytes_ - end >= run / 4) return 0;
  const std::uint64_t to = std::min(end + run, options.segment_bytes);
  return to > disk_bytes_ ? to - disk_bytes_ : 0;
}

void Log::preallocate() {
  for (std::uint64_t due = zeros_due(); due > 0;) {
    const std::uint64_t size = std::min<std::uint64_t>(due, kZeros.size());
    if (!writing_->pwrite(disk_bytes_, {kZeros.data(), size})) {
      // Zeros are a help only. What was written of them may lie behind disk_bytes_, and a later trim cuts it.
      ignore(writing_->truncate(disk_bytes_), "zeros behind the end do no harm");
      return;
    }
    disk_bytes_ += size;
    due -= size;
  }
}

void Log::publish(const Written& written) {
  const std::lock_guard held(mutex_);
  for (IndexRecord record : written.index) {
    record.position += active_.length;
    active_.oldest_us =
        active_.oldest_us == 0 ? record.created_at : std::min(active_.oldest_us, record.created_at);
    active_.index.add(record);
  }
  if (active_.opened_us == 0) active_.opened_us = written.now_us;
  active_.highest_seq = std::max(active_.highest_seq, written.last_seq);
  active_.length += written_bytes_;
  sync_.bytes += written_bytes_;
  written_bytes_ = 0;
  if (!writing_) return;  // synced early
  sync_.file = std::move(writing_);
  writing_.reset();
  sync_.file_id = active_.id;
  sync_.end = active_.length;
  unsynced_.store(true, std::memory_order_release);
}

Status Log::sync_written() {
  auto done = writing_->sync();
  writing_.reset();
  return done;
}

// Durable before anything else is written: the index of a cut entry is used again, and a crash must not bring
// the old bytes back beside the new entry.
Status Log::cut_back() {
  if (written_bytes_ == 0) {
    // Nothing of the group came here; looking for a descriptor, which may be what the group lacked, would end
    // the node for nothing (HD-28).
    writing_.reset();
    return {};
  }
  written_bytes_ = 0;
  if (auto done = open_to_write(); !done) return done;
  if (!planted(PlantedBug::qlog_keeps_refused_bytes))
    if (auto done = writing_->truncate(active_.length); !done) return done;
  if (auto done = writing_->sync(); !done) return done;
  disk_bytes_ = active_.length;
  writing_.reset();
  return {};
}

Status Log::sync() {
  std::shared_ptr<disk::File> file;
  std::uint64_t bytes = 0, end = 0;
  std::uint32_t file_id = 0;
  {
    const std::lock_guard held(mutex_);
    file = std::move(sync_.file);
    sync_.file.reset();
    bytes = std::exchange(sync_.bytes, 0);
    file_id = sync_.file_id;
    end = sync_.end;
    unsynced_.store(false, std::memory_order_release);
  }
  if (!file) return {};
  if (auto done = file->sync(); !done) return done;
  reach_point(shared_.options.crash_points, CrashPoint::qlog_record_fsynced);
  if (shared_.options.drop_behind_bytes > 0) {
    drop_behind_.synced(file_id, end);
    drop_behind();
  }
  const std::lock_guard held(mutex_);
  sync_.average_bytes = sync_.count == 0 ? bytes : (3 * sync_.average_bytes + bytes) / 4;
  ++sync_.count;
  return {};
}

void Log::drop_behind() {
  for (;;) {
    const auto range = drop_behind_.take(shared_.options.drop_behind_bytes);
    if (range.bytes == 0) return;
    // A file that cannot be opened, or is gone, has no cache worth the effort.
    if (const auto file = shared_.open_file(first_key(range.file_id)); file)
      (*file)->drop_cache(range.offset, range.bytes);
  }
}

}  // namespace queen::qlog::detail
