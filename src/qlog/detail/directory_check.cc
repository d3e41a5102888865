#include "qlog/detail/directory_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "qlog/detail/paths.h"

namespace queen::qlog::detail {
namespace {

constexpr std::size_t kSectorBytes = 512;
// In the header: the number of rows, then that of the files; and the check of all before it.
constexpr std::size_t kRowsAt = 16, kHeaderCheckAt = 48;
// As many uncovered files make a node build one: detail/directory_builder.cc.
constexpr std::size_t kFilesWithoutOne = 16;

bool all_zeros(BytesView bytes) {
  return bytes.find_first_not_of('\0') == BytesView::npos;
}

// What a crash makes of a file that was never synced: it ends too early, its header was not written yet, or
// sectors of it are zeros. No sector of a good one is: fourteen rows of partition 0 that end at offset 0 do
// not exist.
bool cut_short_by_a_crash(BytesView bytes) {
  if (bytes.size() < kDirectoryHeaderBytes || all_zeros(bytes.substr(0, kDirectoryHeaderBytes))) return true;
  for (std::size_t at = 0; at < bytes.size(); at += kSectorBytes)
    if (all_zeros(bytes.substr(at, kSectorBytes))) return true;
  ByteReader reader(bytes.substr(kRowsAt));
  const auto rows = reader.le<std::uint64_t>();
  const auto files = reader.le<std::uint32_t>();
  // A header that is damaged itself says nothing about the length.
  if (xxh3_64(bytes.substr(0, kHeaderCheckAt)) != load_le<std::uint64_t>(bytes.data() + kHeaderCheckAt))
    return false;
  const std::uint64_t content = bytes.size() - kDirectoryHeaderBytes;
  const std::uint64_t files_bytes = std::uint64_t{files} * sizeof(std::uint32_t);
  return content < files_bytes || (content - files_bytes) / kDirectoryRowBytes < rows;
}

// The first place whose row is not before (pid, file_id): within a partition file ids ascend.
std::uint64_t place_of(const SealedDirectory& directory, std::uint64_t pid, std::uint32_t file_id) {
  std::uint64_t from = 0, to = directory.rows();
  while (from < to) {
    const std::uint64_t middle = from + (to - from) / 2;
    const DirectoryRow row = directory.at(middle);
    const bool below = row.pid < pid || (row.pid == pid && row.file_id < file_id);
    (below ? from : to) = below ? middle + 1 : middle;
  }
  return from;
}

}  // namespace

std::string DirectoryCheck::path_of(const SealedDirectory& directory) const {
  return directory_path(root_, log_, directory.first(), directory.last());
}

Status DirectoryCheck::open(LogId log) {
  log_ = log;
  used_.clear();
  omitted_.clear();
  const auto names = disk_.list(log_directory(root_, log));
  if (!names) return names.error();
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges;
  for (const auto& [name, is_directory] : *names)
    if (const auto range = parse_directory_name(name); range && !is_directory) ranges.push_back(*range);
  // The order in which an open takes them.
  std::ranges::sort(ranges, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  for (const auto& [first, last] : ranges)
    if (auto done = look_at(log, first, last); !done) return done;
  return {};
}

Status DirectoryCheck::look_at(LogId log, std::uint32_t first, std::uint32_t last) {
  const std::string path = directory_path(root_, log, first, last);
  auto mapping = disk_.map(path);
  if (!mapping) return mapping.error();
  auto directory = SealedDirectory::over(std::move(*mapping), log, first, last);
  if (!directory) {
    auto again = disk_.map(path);
    if (!again) return again.error();
    const disk::ReadingMapped reading(**again);
    not_usable(path, (*again)->bytes(), directory.error());
    return {};
  }
  if (!used_.empty() && used_.back().directory->last() >= first) {
    judge_.mention(Severity::note, {"RD-10", path, {}}, "another covers its files: the next boot removes it");
    return {};
  }
  Used used{.directory = std::move(*directory), .rows_of = {}};
  for (std::uint64_t row = 0; row < used.directory->rows(); ++row)
    ++used.rows_of[used.directory->at(row).file_id];
  used_.push_back(std::move(used));
  return {};
}

void DirectoryCheck::not_usable(const std::string& path, BytesView bytes, const Error& why) {
  if (cut_short_by_a_crash(bytes))
    return judge_.mention(
        Severity::note, {"RD-10", path, {}},
        fmt::format("of no use ({}), as a crash may leave it: the next boot removes it, and "
                    "the node makes it again",
                    why.what));
  judge_.mention(Severity::damage, {"RD-10", path, {}},
                 fmt::format("{} is damaged ({}): nothing reads it; the next boot removes it, and the node "
                             "makes it again",
                             path, why.what));
}

void DirectoryCheck::file(const Contents& contents) {
  for (const auto& used : used_) {
    if (!used.directory->covers(contents.file_id)) continue;
    if (std::ranges::binary_search(used.directory->files(), contents.file_id))
      compare(used, contents);
    else
      omitted_.insert(contents.file_id);
  }
}

// Each partition of the file has a row that says at least what is there, and exactly that where nothing was
// taken out of the file since.
void DirectoryCheck::compare(const Used& used, const Contents& contents) {
  const SealedDirectory& directory = *used.directory;
  std::uint64_t partitions = 0;
  for (auto at = contents.records.begin(); at != contents.records.end();) {
    const auto first = at;
    while (at != contents.records.end() && at->pid == first->pid) ++at;
    const IndexRecord& last = *std::prev(at);
    ++partitions;
    const std::uint64_t place = place_of(directory, first->pid, contents.file_id);
    const auto row = directory.at(place, first->pid);
    if (!row || row->file_id != contents.file_id)
      return differs(used, place,
                     fmt::format("no row for partition {} in file {}", first->pid, contents.file_id));
    const DirectoryRow there{.pid = first->pid,
                             .first_offset = first->base_offset,
                             .end = last.end,
                             .last_stamp = last.created_at,
                             .file_id = contents.file_id};
    const bool spans = row->first_offset <= there.first_offset && row->end >= there.end &&
                       row->last_stamp >= there.last_stamp;
    if (contents.all ? *row != there : !spans)
      return differs(
          used, place,
          fmt::format("the row of partition {} in file {} says offsets {} to {}, and {} to {} are "
                      "there",
                      row->pid, row->file_id, row->first_offset, row->end, there.first_offset, there.end));
  }
  const auto rows = used.rows_of.find(contents.file_id);
  if (contents.all && (rows == used.rows_of.end() ? 0 : rows->second) != partitions)
    differs(used, 0, fmt::format("rows of file {} name partitions that it has nothing of", contents.file_id));
}

void DirectoryCheck::differs(const Used& used, std::uint64_t row, std::string_view how) {
  const std::string path = path_of(*used.directory);
  const std::uint64_t rows_at =
      kDirectoryHeaderBytes + used.directory->files().size() * sizeof(std::uint32_t);
  judge_.mention(
      Severity::damage, {"RD-9", path, rows_at + row * kDirectoryRowBytes},
      fmt::format("{} does not describe its files: {}; remove it, and the node makes it again", path, how));
}

void DirectoryCheck::finish(const LogImage& image) {
  // The active file is in none.
  const std::size_t sealed = image.files.empty() ? 0 : image.files.size() - 1;
  const std::span files(image.files.data(), sealed);
  for (const auto& used : used_) {
    const auto& listed = used.directory->files();
    const auto there = static_cast<std::size_t>(std::ranges::count_if(
        listed, [&](std::uint32_t id) { return std::ranges::binary_search(files, id, {}, &FoundFile::id); }));
    if (2 * there < listed.size())
      judge_.mention(Severity::note, {"RD-10", path_of(*used.directory), {}},
                     fmt::format("{} of the {} files that it names are gone: the node removes it",
                                 listed.size() - there, listed.size()));
    for (const std::uint32_t id : omitted_) {
      // Taken away by reclaim when the directory was made, and only the crash after it brought it back.
      const bool leftover = std::ranges::find(image.unlisted, id) != image.unlisted.end();
      if (used.directory->covers(id) && !leftover)
        differs(used, 0, fmt::format("its list leaves file {} out, and no reader would ask it", id));
    }
  }
  tell_missing(image);
}

void DirectoryCheck::tell_missing(const LogImage& image) const {
  std::size_t run = 0, longest = 0;
  for (std::size_t i = 0; i + 1 < image.files.size(); ++i) {
    const bool covered = std::ranges::any_of(
        used_, [&](const Used& used) { return used.directory->covers(image.files[i].id); });
    run = covered ? 0 : run + 1;
    longest = std::max(longest, run);
  }
  if (longest >= kFilesWithoutOne)
    judge_.mention(Severity::note, {"RD-9", log_directory(root_, log_), {}},
                   fmt::format("{} sealed files are in no directory file: the node makes one", longest));
}

}  // namespace queen::qlog::detail
