// The readers' side of one log: where the records of a partition are. storage.md 20.1.
#include <fmt/format.h>

#include <algorithm>

#include "qlog/detail/file_scan.h"
#include "qlog/detail/log.h"
#include "qlog/detail/paths.h"

namespace queen::qlog::detail {
namespace {

// First record whose end is above `offset`.
std::size_t first_behind(std::span<const IndexRecord> records, std::uint64_t offset) {
  return static_cast<std::size_t>(std::ranges::upper_bound(records, offset, {}, &IndexRecord::end) -
                                  records.begin());
}

std::vector<IndexRecord> copy_from(std::span<const IndexRecord> records, std::size_t at, std::size_t most) {
  const auto wanted = records.subspan(at, std::min(most, records.size() - at));
  return {wanted.begin(), wanted.end()};
}

// Whether older files cannot hold anything nearer: this one has a record that starts at or below the offset.
bool settles(std::span<const IndexRecord> records, std::uint64_t offset) {
  return !records.empty() && records.front().base_offset <= offset;
}

bool starts_before(std::span<const IndexRecord> records, std::int64_t since_us) {
  return !records.empty() && records.front().created_at < since_us;
}

std::optional<IndexRecord> first_stamped(std::span<const IndexRecord> records, std::uint64_t offset,
                                         std::int64_t since_us) {
  const auto behind = records.subspan(first_behind(records, offset));
  const auto found = std::ranges::lower_bound(behind, since_us, {}, &IndexRecord::created_at);
  return found == behind.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

// What one file says: its records at or behind the offset, and whether the search ends here.
struct Log::Step {
  std::vector<IndexRecord> records;
  bool ends = false;
};

// Newest file first. A file whose records all lie above the offset may still be the answer when the offset
// falls into a gap, so the nearest such run is kept while older files are asked.
Result<RecordRun> Log::find(Pid pid, std::uint64_t offset, std::size_t records_max) {
  RecordRun nearest;
  std::shared_ptr<const SealedFiles> sealed;
  {
    const std::lock_guard held(mutex_);
    const auto records = active_.index.of(pid.value);
    nearest = {{id_, active_.id}, copy_from(records, first_behind(records, offset), records_max)};
    if (settles(records, offset) && !nearest.records.empty()) return nearest;
    if (settles(records, offset)) return RecordRun{};
    sealed = sealed_;
  }
  for (std::size_t i = sealed->size(); i-- > 0;) {
    auto step = look_in_sealed((*sealed)[i], pid, offset, records_max);
    if (!step) return std::move(step).error();
    if (!step->records.empty()) nearest = {key_of((*sealed)[i]), std::move(step->records)};
    if (step->ends) break;
  }
  return nearest;
}

// Newest file first, and no further back than the first file that has an older record or one at or below the
// offset: every record of an older file has both a lower offset and a stamp that is not later.
Result<std::optional<IndexRecord>> Log::find_stamped(Pid pid, std::uint64_t offset, std::int64_t since_us) {
  std::optional<IndexRecord> nearest;
  std::shared_ptr<const SealedFiles> sealed;
  {
    const std::lock_guard held(mutex_);
    const auto records = active_.index.of(pid.value);
    nearest = first_stamped(records, offset, since_us);
    if (settles(records, offset) || starts_before(records, since_us)) return nearest;
    sealed = sealed_;
  }
  for (std::size_t i = sealed->size(); i-- > 0;) {
    const auto index = load_index((*sealed)[i]);
    if (!index) return index.error();
    const auto records = (*index)->of(pid.value);
    if (const auto found = first_stamped(records, offset, since_us)) nearest = found;
    if (settles(records, offset) || starts_before(records, since_us)) break;
  }
  return nearest;
}

Result<Log::Step> Log::look_in_sealed(const SealedFile& file, Pid pid, std::uint64_t offset,
                                      std::size_t records_max) {
  const auto index = load_index(file);
  if (!index) return index.error();
  const auto records = (*index)->of(pid.value);
  return Step{.records = copy_from(records, first_behind(records, offset), records_max),
              .ends = settles(records, offset)};
}

Result<std::shared_ptr<const IndexFile>> Log::load_index(const SealedFile& file) {
  const FileKey key = key_of(file);
  if (auto held = shared_.indexes.find(key)) return held;
  auto index =
      read_index_file(shared_.disk, index_path(shared_.options.directory, id_, file.id), file.id, file.bytes);
  if (!index) {
    auto opened = shared_.open_file(key);
    if (!opened) return std::move(opened).error();
    index = index_by_scan(**opened, file.id, file.bytes);
    if (!index) return std::move(index).error();
  }
  const std::uint64_t cost = index->records.size() * sizeof(IndexRecord) + sizeof(IndexFile);
  return shared_.indexes.insert(key, std::make_shared<const IndexFile>(std::move(*index)), cost);
}

std::uint64_t Log::bytes_on_disk() const {
  const std::lock_guard held(mutex_);
  std::uint64_t bytes = disk_bytes_;
  for (const auto& file : *sealed_) bytes += file.bytes;
  return bytes;
}

}  // namespace queen::qlog::detail
