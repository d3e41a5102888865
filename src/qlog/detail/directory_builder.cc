#include "qlog/detail/directory_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "base/hash.h"
#include "qlog/detail/paths.h"

namespace queen::qlog::detail {
namespace {

constexpr std::size_t kFilesLeast = 16;
constexpr std::size_t kFilesMost = 64;  // of one build, besides directories that it merges
constexpr std::uint64_t kMergedRowsMax = 8'000'000;
constexpr std::size_t kLogsPerPass = 4096;
constexpr std::size_t kWriteBytes = 1ULL << 20;

// Rows of one file or of one older directory, ascending.
class Rows {
 public:
  virtual ~Rows() = default;
  virtual std::optional<DirectoryRow> next() = 0;
};

class RowsOfIndex final : public Rows {
 public:
  RowsOfIndex(std::shared_ptr<const SealedIndex> index, std::uint32_t file_id)
      : index_(std::move(index)), file_id_(file_id) {}
  std::optional<DirectoryRow> next() override {
    if (at_ == index_->count()) {
      index_->let_go();
      return std::nullopt;
    }
    const IndexRecord first = index_->at(at_);
    IndexRecord last = first;
    while (++at_ < index_->count()) {
      const IndexRecord record = index_->at(at_);
      if (record.pid != first.pid) break;
      last = record;
    }
    return DirectoryRow{.pid = first.pid,
                        .first_offset = first.base_offset,
                        .end = last.end,
                        .last_stamp = last.created_at,
                        .file_id = file_id_};
  }

 private:
  const std::shared_ptr<const SealedIndex> index_;  // the cache's
  const std::uint32_t file_id_;
  std::size_t at_ = 0;
};

bool holds(const SealedFiles& files, std::uint32_t id) {
  return std::ranges::binary_search(files, id, {}, &SealedFile::id);
}

class RowsOfDirectory final : public Rows {
 public:
  RowsOfDirectory(std::shared_ptr<const SealedDirectory> directory, const SealedFiles& there)
      : directory_(std::move(directory)), there_(there) {}
  std::optional<DirectoryRow> next() override {
    while (at_ < directory_->rows()) {
      const DirectoryRow row = directory_->at(at_++);
      if (holds(there_, row.file_id)) return row;
    }
    directory_->let_go();
    return std::nullopt;
  }

 private:
  const std::shared_ptr<const SealedDirectory> directory_;  // the log's
  const SealedFiles& there_;
  std::uint64_t at_ = 0;
};

}  // namespace

// All rows of several sources in one order.
class DirectoryBuilder::MergedRows {
 public:
  void add(std::unique_ptr<Rows> rows) {
    sources_.push_back(std::move(rows));
    pull(sources_.size() - 1);
  }
  std::optional<DirectoryRow> next() {
    if (heads_.empty()) return std::nullopt;
    const Head head = heads_.top();
    heads_.pop();
    pull(head.source);
    return head.row;
  }

 private:
  struct Head {
    DirectoryRow row;
    std::size_t source;
    bool operator>(const Head& other) const {
      return std::tie(row.pid, row.first_offset) > std::tie(other.row.pid, other.row.first_offset);
    }
  };
  void pull(std::size_t source) {
    if (auto row = sources_[source]->next()) heads_.push({*row, source});
  }
  std::vector<std::unique_ptr<Rows>> sources_;
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads_;
};

namespace {

// Rows go straight to the file: a directory may be larger than what memory is to be spent on it.
template <class MergedRows>
Result<std::uint64_t> write_rows(disk::File& file, std::uint64_t at, MergedRows& rows,
                                 const std::function<bool()>& go_on) {
  Bytes buffer;
  std::uint64_t count = 0;
  const auto flush = [&]() -> Status {
    if (!go_on()) return Error{Errc::unavailable, "stopped on the way"};
    if (auto done = file.pwrite(at, buffer); !done) return done;
    at += buffer.size();
    buffer.clear();
    return {};
  };
  while (const auto row = rows.next()) {
    append_row(buffer, *row);
    ++count;
    if (buffer.size() < kWriteBytes) continue;
    if (auto done = flush(); !done) return std::move(done).error();
  }
  if (auto done = flush(); !done) return std::move(done).error();
  return count;
}

Status write_header(disk::Disk& disk, const std::string& path, disk::File& file,
                    const DirectoryHeader& header) {
  const auto mapping = disk.map(path);
  if (!mapping) return mapping.error();
  const disk::ReadingMapped reading(**mapping);
  const auto check = xxh3_64((*mapping)->bytes().substr(kDirectoryHeaderBytes));
  return file.pwrite(0, encode_directory_header(header, check));
}

}  // namespace

void DirectoryBuilder::pass() {
  if (!logs_.shared().options.directories) return;
  if (at_ >= round_.size()) {
    round_ = logs_.log_ids();
    at_ = 0;
  }
  for (std::size_t left = kLogsPerPass; left > 0 && at_ < round_.size() && go_on_(); --left) {
    const auto log = logs_.find(round_[at_++]);
    if (log && !failed_.contains(log->id()) && look_at(*log)) return;
  }
}

// True when something was built.
bool DirectoryBuilder::look_at(Log& log) {
  drop_stale(log);
  const auto sealed = log.sealed_files();
  const Plan next = plan(*sealed, *log.directories());
  if (next.files.size() < kFilesLeast) return false;
  const std::uint64_t swaps = log.swaps();
  auto done = build(log, next);
  // What failed because a file was replaced or removed meanwhile is tried again.
  if (done || !go_on_() || log.swaps() != swaps) return true;
  failed_.insert(log.id());
  logs_.shared().log.warn("directory_not_built", {{"log", log.id().value}, {"why", done.error().what}});
  return true;
}

// The newest run of files that no directory covers, and the older directories next to it that are not much
// larger: so their number stays at the logarithm of the files'.
DirectoryBuilder::Plan DirectoryBuilder::plan(const SealedFiles& sealed,
                                              const SealedDirectories& directories) {
  Plan plan;
  auto dir = directories.begin();
  for (const auto& file : sealed) {
    while (dir != directories.end() && file.id > (*dir)->last()) ++dir;
    const bool covered = dir != directories.end() && (*dir)->covers(file.id);
    if (covered && plan.files.size() >= kFilesLeast) break;
    if (covered) plan.files.clear();
    if (!covered) plan.files.push_back(file);
    if (plan.files.size() == kFilesMost) break;
  }
  if (plan.files.size() < kFilesLeast) return plan;
  std::size_t files = plan.files.size();
  std::uint64_t rows = 0;
  auto before = std::ranges::lower_bound(directories, plan.files.front().id, {},
                                         [](const auto& directory) { return directory->first(); });
  std::uint32_t next = plan.files.front().id;
  while (before != directories.begin()) {
    const auto& older = *--before;
    const bool apart = std::ranges::any_of(
        sealed, [&](const SealedFile& file) { return file.id > older->last() && file.id < next; });
    rows += older->rows();
    if (apart || older->files().size() >= 2 * files || rows > kMergedRowsMax) break;
    files += older->files().size();
    next = older->first();
    plan.merged.insert(plan.merged.begin(), older);
  }
  return plan;
}

// One that names more files that are gone than such as are there costs more than it helps.
void DirectoryBuilder::drop_stale(Log& log) {
  const auto sealed = log.sealed_files();
  SealedDirectories stale;
  for (const auto& directory : *log.directories()) {
    const auto there =
        std::ranges::count_if(directory->files(), [&](std::uint32_t id) { return holds(*sealed, id); });
    if (2 * static_cast<std::size_t>(there) < directory->files().size()) stale.push_back(directory);
  }
  if (!stale.empty()) replace(log, stale, nullptr);
}

Status DirectoryBuilder::build(Log& log, const Plan& plan) {
  Shared& shared = logs_.shared();
  const auto sealed = log.sealed_files();
  DirectoryHeader header{.log = log.id(), .files = {}, .rows = 0};
  MergedRows rows;
  for (const auto& older : plan.merged) {
    for (const auto id : older->files())
      if (holds(*sealed, id)) header.files.push_back(id);
    rows.add(std::make_unique<RowsOfDirectory>(older, *sealed));
  }
  for (const auto& file : plan.files) {
    auto index = log.load_index(file);
    if (!index) return std::move(index).error();
    header.files.push_back(file.id);
    rows.add(std::make_unique<RowsOfIndex>(std::move(*index), file.id));
  }
  const std::uint32_t first = header.files.front(), last = header.files.back();
  const std::string path = directory_path(shared.options.directory, log.id(), first, last);
  if (auto done = write(path, header, rows); !done) {
    ignore(shared.disk.remove_file(path + ".tmp"), "a leftover is removed at the next open");
    return done;
  }
  auto mapping = shared.disk.map(path);
  if (!mapping) return std::move(mapping).error();
  auto built = SealedDirectory::over(std::move(*mapping), log.id(), first, last);
  if (!built) return std::move(built).error();
  replace(log, plan.merged, std::move(*built));
  return {};
}

// Not synced: like an index it is made again when a crash takes it.
Status DirectoryBuilder::write(const std::string& path, DirectoryHeader& header, MergedRows& rows) {
  Shared& shared = logs_.shared();
  const std::string temporary = path + ".tmp";
  const auto file = shared.open(temporary, disk::Open::create);
  if (!file) return file.error();
  if (auto done = (*file)->truncate(0); !done) return done;
  const Bytes files = encode_directory_files(header.files);
  if (auto done = (*file)->pwrite(kDirectoryHeaderBytes, files); !done) return done;
  const auto count = write_rows(**file, kDirectoryHeaderBytes + files.size(), rows, go_on_);
  if (!count) return count.error();
  header.rows = *count;
  if (auto done = write_header(shared.disk, temporary, **file, header); !done) return done;
  return shared.disk.rename(temporary, path);
}

void DirectoryBuilder::replace(Log& log, const SealedDirectories& old,
                               std::shared_ptr<const SealedDirectory> built) {
  log.replace_directories(old, std::move(built));
  Shared& shared = logs_.shared();
  for (const auto& directory : old)
    ignore(shared.disk.remove_file(
               directory_path(shared.options.directory, log.id(), directory->first(), directory->last())),
           "one that another covers is removed at the next open");
}

}  // namespace queen::qlog::detail
