// The readers' side of one log: where the records of a partition are. storage.md 20.1.
#include <algorithm>

#include "qlog/detail/log.h"
#include "qlog/detail/paths.h"

namespace queen::qlog::detail {

// Newest file first, a directory in place of the files it covers. A file whose records all lie behind what is
// looked for may still be the answer when that falls into a gap, so the nearest such run is kept while older
// files are asked.
class Log::Search {
 public:
  Search(Log& log, const IndexQuery& query, std::size_t records_max)
      : log_(log), query_(query), records_max_(records_max) {
    const std::lock_guard held(log.mutex_);
    auto answer = log.active_.index.find(query, records_max);
    nearest_ = {log.first_key(log.active_.id), std::move(answer.records), nullptr, 0};
    ends_ = answer.ends;
    sealed_ = log.sealed_;
    directories_ = log.directories_;
  }

  Result<RecordRun> run() {
    std::size_t file = sealed_->size(), directory = directories_->size();
    while (!ends_ && (file > 0 || directory > 0)) {
      const auto* next = directory > 0 ? (*directories_)[directory - 1].get() : nullptr;
      if (next == nullptr || (file > 0 && (*sealed_)[file - 1].id > next->last())) {
        const auto asked = ask((*sealed_)[--file]);
        if (!asked) return asked.error();
        ends_ = asked->ends;
        continue;
      }
      if (auto done = ask(*next); !done) return std::move(done).error();
      --directory;
      while (file > 0 && (*sealed_)[file - 1].id >= next->first()) --file;
    }
    return std::move(nearest_);
  }

 private:
  struct Asked {
    bool found = false, ends = false;
  };

  Result<Asked> ask(const SealedFile& file) {
    auto index = log_.load_index(file);
    if (!index) return std::move(index).error();
    auto answer = (*index)->find(query_, records_max_);
    const Asked asked{.found = !answer.records.empty(), .ends = answer.ends};
    if (asked.found)
      nearest_ = {log_.key_of(file), std::move(answer.records), std::move(*index), answer.next};
    return asked;
  }

  // The row names the file, unless that was removed or rewritten without what it held: then the next one
  // does.
  Status ask(const SealedDirectory& directory) {
    const auto found = directory.find(query_);
    ends_ = found.ends;
    for (std::uint64_t place = found.place;; ++place) {
      const auto row = directory.at(place, query_.pid);
      if (!row) return {};
      const auto file = std::ranges::lower_bound(*sealed_, row->file_id, {}, &SealedFile::id);
      if (file == sealed_->end() || file->id != row->file_id) continue;
      const auto asked = ask(*file);
      if (!asked) return asked.error();
      if (asked->found) return {};
    }
  }

  Log& log_;
  const IndexQuery& query_;
  const std::size_t records_max_;
  RecordRun nearest_;
  bool ends_ = false;
  std::shared_ptr<const SealedFiles> sealed_;
  std::shared_ptr<const SealedDirectories> directories_;
};

Result<RecordRun> Log::find(const IndexQuery& query, std::size_t records_max) {
  return Search(*this, query, records_max).run();
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
  const std::string path = index_path(shared_.options.directory, id_, file.id);
  const auto records = [&] { return shared_.open_file(key); };
  auto index = shared_.indexes.get(key, path, file.bytes, records);
  if (index || !out_of_descriptors(index.error())) return index;
  // Until one can be had (HD-28); it is free again at once.
  if (const auto waited = shared_.open(path, disk::Open::read); !waited && out_of_descriptors(waited.error()))
    return index;
  return shared_.indexes.get(key, path, file.bytes, records);
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
