#include "qlog/walk.h"

#include <algorithm>

#include "qlog/detail/file_scan.h"
#include "qlog/detail/layout_files.h"
#include "qlog/detail/paths.h"

namespace queen::qlog {
namespace {

// Above every seq there is, and small enough that noise is told apart from records cheaply.
constexpr std::uint64_t kSeqMax = 1ULL << 40;

Result<std::vector<LogId>> all_logs(disk::Disk& disk, const std::string& directory) {
  const auto names = disk.list(directory);
  if (!names) return names.error();
  std::vector<LogId> logs;
  for (const auto& [name, is_directory] : *names)
    if (const auto log = is_directory ? detail::parse_log_directory(name) : std::nullopt)
      logs.push_back(*log);
  std::ranges::sort(logs);
  return logs;
}

Result<std::vector<std::uint32_t>> files_of(disk::Disk& disk, const std::string& directory) {
  const auto names = disk.list(directory);
  if (!names) return names.error();
  std::vector<std::uint32_t> files;
  for (const auto& [name, is_directory] : *names)
    if (const auto id = is_directory ? std::nullopt : detail::parse_file_name(name, ".qlog"))
      files.push_back(*id);
  std::ranges::sort(files);
  return files;
}

Status walk_file(disk::File& file, std::uint64_t size, RecordPlace place, RecordWalker& walker) {
  detail::FileScanner scanner(file, size);
  while (scanner.position() < size) {
    place.position = scanner.position();
    const auto found = scanner.next();
    if (!found) return found.error();
    if (found->outcome == Scan::record) {
      walker.record(place, found->record, found->bytes);
      continue;
    }
    const auto garbage = detail::first_non_zero(file, size, place.position);
    if (!garbage) return garbage.error();
    if (!*garbage) return {};  // zeros written ahead
    const auto good = detail::find_good_record(file, size, place.position + 1, kSeqMax);
    if (!good) return good.error();
    walker.damaged(place, (*good ? (*good)->position : size) - place.position);
    if (!*good) return {};
    scanner.go_to((*good)->position);
  }
  return {};
}

}  // namespace

Status walk_logs(disk::Disk& disk, const std::string& directory, const std::vector<LogId>& logs,
                 RecordWalker& walker) {
  const auto wanted = logs.empty() ? all_logs(disk, directory) : Result<std::vector<LogId>>(logs);
  if (!wanted) return wanted.error();
  for (const LogId log : *wanted) {
    const auto files = files_of(disk, detail::log_directory(directory, log));
    if (!files) return files.error();
    for (const auto id : *files) {
      const std::string path = detail::record_file(directory, log, id);
      const auto file = disk.open(path, disk::Open::read);
      if (!file) return file.error();
      const auto size = (*file)->size();
      if (!size) return size.error();
      Bytes bytes(std::min<std::uint64_t>(*size, kFileHeaderBytes), '\0');
      if (const auto got = (*file)->pread(0, bytes); !got) return got.error();
      const auto header = decode_file_header(bytes);
      walker.file(path, header ? *header : FileHeader{},
                  header ? std::nullopt : std::optional(header.error()));
      if (auto done = walk_file(**file, *size, {log, id, 0}, walker); !done) return done;
    }
  }
  return {};
}

Result<Layout> layout_of(disk::Disk& disk, const std::string& directory) {
  const auto found = detail::read_layout(disk, directory, detail::HasLogs::yes, std::nullopt);
  if (!found) return found.error();
  return Layout{.shards = *found->shards, .lanes = *found->lanes};
}

}  // namespace queen::qlog
