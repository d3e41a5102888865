// The readers' side of one log: where the records of a partition are. storage.md 20.1.
#include <algorithm>

#include "qlog/detail/log.h"
#include "qlog/detail/paths.h"

namespace queen::qlog::detail {

// Newest file first. A file whose records all lie behind what is looked for may still be the answer when that
// falls into a gap, so the nearest such run is kept while older files are asked.
Result<RecordRun> Log::find(const IndexQuery& query, std::size_t records_max) {
  RecordRun nearest;
  std::shared_ptr<const SealedFiles> sealed;
  {
    const std::lock_guard held(mutex_);
    auto answer = active_.index.find(query, records_max);
    nearest = {first_key(active_.id), std::move(answer.records), nullptr, 0};
    if (answer.ends) return nearest;
    sealed = sealed_;
  }
  for (std::size_t i = sealed->size(); i-- > 0;) {
    auto index = load_index((*sealed)[i]);
    if (!index) return std::move(index).error();
    auto answer = (*index)->find(query, records_max);
    if (!answer.records.empty())
      nearest = {key_of((*sealed)[i]), std::move(answer.records), std::move(*index), answer.next};
    if (answer.ends) break;
  }
  return nearest;
}

Result<RecordRun> Log::find_next(const RecordRun& last, const IndexQuery& query, std::size_t records_max) {
  if (last.index) {
    auto records = last.index->from(last.next, query.pid, records_max);
    const std::size_t next = last.next + records.size();
    if (!records.empty()) return RecordRun{last.file, std::move(records), last.index, next};
  }
  return find(query, records_max);
}

Result<std::shared_ptr<const SealedIndex>> Log::load_index(const SealedFile& file) {
  const FileKey key = key_of(file);
  return shared_.indexes.get(key, index_path(shared_.options.directory, id_, file.id), file.bytes,
                             [&] { return shared_.open_file(key); });
}

bool Log::has(const FileKey& file) const {
  const std::lock_guard held(mutex_);
  if (file.file_id == active_.id) return true;
  return std::ranges::any_of(*sealed_, [&](const SealedFile& sealed) { return key_of(sealed) == file; });
}

std::uint64_t Log::bytes_on_disk() const {
  const std::lock_guard held(mutex_);
  std::uint64_t bytes = disk_bytes_;
  for (const auto& file : *sealed_) bytes += file.bytes;
  return bytes;
}

}  // namespace queen::qlog::detail
