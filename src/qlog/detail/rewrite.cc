#include "qlog/detail/rewrite.h"

#include "qlog/detail/paths.h"
#include "qlog/detail/record_read.h"

namespace queen::qlog::detail {
namespace {

// Synced piece by piece, so that no sync of the writer waits behind a whole file's dirty pages.
constexpr std::size_t kPieceBytes = 4ULL << 20;

std::string copy_path(const Shared& shared, LogId log, std::uint32_t file_id) {
  return compact_path(shared.options.directory, log, file_id);
}

// Appends records to the copy, and its index.
class Copier {
 public:
  Copier(disk::File& to, IndexFile& index) : to_(to), index_(index) {}

  Status put(BytesView bytes) {
    buffer_.append(bytes);
    return buffer_.size() < kPieceBytes ? Status{} : flush();
  }
  Status put_record(const IndexRecord& at, BytesView bytes) {
    index_.records.push_back(at);
    index_.records.back().position = written_ + buffer_.size();
    return put(bytes);
  }
  Status flush() {
    if (auto done = to_.pwrite(written_, buffer_); !done) return done;
    written_ += buffer_.size();
    index_.file_bytes = written_;
    buffer_.clear();
    return to_.sync();
  }

 private:
  disk::File& to_;
  IndexFile& index_;
  Bytes buffer_;
  std::uint64_t written_ = 0;
};

Status copy_records(Shared& shared, const FileKey& from, const std::vector<IndexRecord>& live,
                    const std::function<bool()>& go_on, Copier& copier) {
  for (const auto& at : live) {
    if (!go_on()) return Error{Errc::unavailable, "stopped on the way"};
    const auto read = read_record(shared, from, at);
    if (!read) return read.error();
    if (auto done = copier.put_record(at, *read->buffer); !done) return done;
  }
  return copier.flush();
}

}  // namespace

Result<Rewrite> copy_live(Shared& shared, LogId log, const SealedFile& file,
                          const std::vector<IndexRecord>& live, const std::function<bool()>& go_on) {
  const std::string path = copy_path(shared, log, file.id);
  auto opened = shared.disk.open(path, disk::Open::create);
  if (!opened) return std::move(opened).error();
  IndexFile index{.file_id = file.id, .file_bytes = 0, .records = {}};
  index.records.reserve(live.size());
  Copier copier(**opened, index);
  auto done = (*opened)->truncate(0);
  if (done) done = copier.put(encode_file_header({.file_id = file.id, .first_seq = file.first_seq}));
  if (done) done = copy_records(shared, {log, file.id, file.generation}, live, go_on, copier);
  if (!done) {
    ignore(shared.disk.remove_file(path), "a leftover is removed at the next open");
    return std::move(done).error();
  }
  sort_records(index.records);
  SealedFile fresh = file;
  fresh.bytes = index.file_bytes;
  fresh.generation = shared.next_generation();
  return Rewrite{
      .log = log, .old = file, .fresh = fresh, .file = std::move(*opened), .index = encode_index_file(index)};
}

void discard(Shared& shared, const Rewrite& rewrite) {
  ignore(shared.disk.remove_file(copy_path(shared, rewrite.log, rewrite.old.id)),
         "a leftover is removed at the next open");
}

bool show(Shared& shared, Log& log, const Rewrite& rewrite) {
  const std::unique_lock turn(log.turn(), std::try_to_lock);
  if (!turn) return false;
  shared.pin(log.key_of(rewrite.fresh), rewrite.file);
  log.replace(rewrite.fresh, rewrite.index);
  return true;
}

Status take_name(Shared& shared, const Rewrite& rewrite) {
  const std::string& root = shared.options.directory;
  const std::uint32_t id = rewrite.old.id;
  // Without it the old index stays, which does not fit the new file and is made again (QL-21).
  ignore(disk::replace_file(shared.disk, index_path(root, rewrite.log, id), rewrite.index),
         "an index is only a help");
  auto done = shared.disk.rename(copy_path(shared, rewrite.log, id), record_file(root, rewrite.log, id));
  if (!done) return done;
  shared.files.insert({rewrite.log, id, rewrite.fresh.generation}, rewrite.file, 1);
  shared.pin({}, nullptr);
  // Held in memory until now; from here on it is found under its name.
  shared.indexes.erase({rewrite.log, id, rewrite.fresh.generation});
  // Should this fail, a crash may bring the old file back: it holds the same records and more.
  return shared.disk.sync_dir(log_directory(root, rewrite.log));
}

}  // namespace queen::qlog::detail
