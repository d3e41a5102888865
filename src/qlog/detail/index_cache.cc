#include "qlog/detail/index_cache.h"

#include <algorithm>

#include "qlog/detail/file_scan.h"

namespace queen::qlog::detail {
namespace {

// One page: a map would cost as much, and a process has only so many maps.
constexpr std::uint64_t kHeldBytesMax = 4096;
constexpr std::uint64_t kHeldTotalMax = 64ULL << 20;
// Above the warning's mark, and low enough that the heap and the threads still get their maps.
constexpr std::uint64_t kMapsPct = 80;
constexpr std::uint64_t kWarnPct = 70;

std::uint64_t percent(std::uint64_t of, std::uint64_t pct) {
  return std::max<std::uint64_t>(of / 100 * pct + of % 100 * pct / 100, 1);
}

}  // namespace

IndexCache::IndexCache(disk::Disk& disk, Logger& log, std::uint64_t maps_limit)
    : disk_(disk),
      log_(log),
      maps_limit_(maps_limit),
      mapped_(percent(maps_limit, kMapsPct)),
      held_(kHeldTotalMax) {}

std::shared_ptr<const SealedIndex> IndexCache::find(const FileKey& key) {
  if (auto mapped = mapped_.find(key)) return mapped;
  return held_.find(key);
}

std::shared_ptr<const SealedIndex> IndexCache::keep(const FileKey& key,
                                                    std::shared_ptr<const SealedIndex> index,
                                                    std::uint64_t bytes) {
  if (!index->mapped()) return held_.insert(key, std::move(index), bytes);
  auto kept = mapped_.insert(key, std::move(index), 1);
  warn_when_many();
  return kept;
}

IndexCache::Loaded IndexCache::map(const FileKey& key, const std::string& path, std::uint64_t file_bytes) {
  auto mapping = disk_.map(path);
  if (!mapping && mapping.error().code == Errc::full) {
    // No more maps: ours are given back first, and what cannot be mapped then is read into memory.
    mapped_.clear();
    mapping = disk_.map(path);
  }
  if (mapping) return SealedIndex::over(std::move(*mapping), key.file_id, file_bytes);
  if (mapping.error().code != Errc::full) return std::move(mapping).error();
  auto bytes = disk::read_file(disk_, path, kHeldTotalMax);
  if (!bytes) return std::move(bytes).error();
  return SealedIndex::hold(std::move(*bytes), key.file_id, file_bytes);
}

IndexCache::Loaded IndexCache::load(const FileKey& key, const std::string& path, std::uint64_t file_bytes) {
  auto bytes = disk::read_file(disk_, path, kHeldBytesMax);
  const bool large = !bytes && bytes.error().code == Errc::invalid;
  if (!bytes && !large) return std::move(bytes).error();
  auto index =
      large ? map(key, path, file_bytes) : SealedIndex::hold(std::move(*bytes), key.file_id, file_bytes);
  if (!index) return index;
  return keep(key, std::move(*index), kIndexHeaderBytes + (*index)->count() * kIndexRecordBytes);
}

IndexCache::Loaded IndexCache::get(const FileKey& key, const std::string& path, std::uint64_t file_bytes,
                                   const OpenRecords& records) {
  if (auto held = find(key)) return held;
  auto loaded = load(key, path, file_bytes);
  if (loaded || loaded.error().code == Errc::unavailable) return loaded;
  return rebuild(key, path, file_bytes, records);
}

IndexCache::Loaded IndexCache::rebuild(const FileKey& key, const std::string& path, std::uint64_t file_bytes,
                                       const OpenRecords& records) {
  const std::lock_guard held(rebuild_mutex_);
  if (auto made = find(key)) return made;
  auto opened = records();
  if (!opened) return std::move(opened).error();
  const auto index = index_by_scan(**opened, key.file_id, file_bytes);
  if (!index) return index.error();
  ++rebuilt_;
  log_.info("index_rebuilt", {{"path", path}, {"records", index->records.size()}});
  Bytes bytes = encode_index_file(*index);
  if (write(path, bytes))
    if (auto loaded = load(key, path, file_bytes)) return loaded;
  const std::uint64_t size = bytes.size();
  auto kept = SealedIndex::hold(std::move(bytes), key.file_id, file_bytes);
  if (!kept) return kept;
  return keep(key, std::move(*kept), size);
}

// The index is only a help: whoever does not find it makes it again from the file. So there is no sync, and a
// failure is no failure of the caller.
Status IndexCache::write(const std::string& path, BytesView bytes) {
  const std::string temporary = path + ".tmp";
  const auto file = disk_.open(temporary, disk::Open::create);
  if (!file) return file.error();
  auto done = (*file)->truncate(0);
  if (done) done = (*file)->pwrite(0, bytes);
  if (done) done = disk_.rename(temporary, path);
  if (!done) ignore(disk_.remove_file(temporary), "a leftover is removed at the next open");
  return done;
}

void IndexCache::put(const FileKey& key, const std::string& path, std::uint64_t file_bytes, Bytes bytes) {
  // A roll that found the volume full left the index of a file that has grown since.
  erase(key);
  const bool written = static_cast<bool>(write(path, bytes));
  if (written && bytes.size() > kHeldBytesMax) return;  // mapped by the first who asks
  hold(key, file_bytes, std::move(bytes));
}

void IndexCache::hold(const FileKey& key, std::uint64_t file_bytes, Bytes bytes) {
  const std::uint64_t size = bytes.size();
  auto index = SealedIndex::hold(std::move(bytes), key.file_id, file_bytes);
  if (index) keep(key, std::move(*index), size);
}

void IndexCache::erase(const FileKey& key) {
  mapped_.erase(key);
  held_.erase(key);
}

void IndexCache::let_go_of_idle() const {
  for (const auto& index : mapped_.values()) index->let_go_when_idle();
}

void IndexCache::count_maps(std::int64_t more) {
  other_maps_ += more;
  if (more > 0) warn_when_many();
}

IndexMaps IndexCache::maps() const {
  return {.mapped = mapped_.cost() + static_cast<std::uint64_t>(other_maps_.load()), .limit = maps_limit_};
}

// A process that runs out of maps cannot seal its next file. One line per process; stats() tell the rest.
void IndexCache::warn_when_many() {
  const IndexMaps now = maps();
  if (now.mapped <= percent(now.limit, kWarnPct) || warned_.exchange(true)) return;
  log_.warn("index_maps_near_limit", {{"mapped", now.mapped}, {"vm_max_map_count", now.limit}});
}

}  // namespace queen::qlog::detail
