#include "qlog/detail/settle.h"

#include <algorithm>

#include "qlog/detail/file_scan.h"
#include "qlog/detail/paths.h"

namespace queen::qlog::detail {
namespace {

Status remove_if_there(disk::Disk& disk, const std::string& path) {
  auto done = disk.remove_file(path);
  if (!done && done.error().code == Errc::not_found) return {};
  return done;
}

std::uint64_t end_below(const LogImage& image, std::uint64_t cut) {
  const auto start = std::ranges::lower_bound(image.active_starts, cut, {}, &SeqStart::seq);
  return start == image.active_starts.end() ? image.active_end : start->position;
}

Status cut_active(disk::Disk& disk, const std::string& path, const FoundFile& active, std::uint64_t end,
                  std::uint64_t cut) {
  const auto file = disk.open(path, disk::Open::read_write);
  if (!file) return file.error();
  if (active.bytes != end) {
    if (auto done = (*file)->truncate(end); !done) return done;
  }
  // The file was opened for an index above the cut, which is used again (QL-28).
  if (active.first_seq > cut) {
    const Bytes header = encode_file_header({.file_id = active.id, .first_seq = cut});
    if (auto done = (*file)->pwrite(0, header); !done) return done;
  }
  // Also when nothing was cut: what was read may have been in the page cache only.
  return (*file)->sync();
}

// A help only, so failure to write one is no failure: it is made again when it is needed.
Status write_missing_index(disk::Disk& disk, const std::string& root, LogId log, const FoundFile& file) {
  const auto opened = disk.open(record_file(root, log, file.id), disk::Open::read);
  if (!opened) return opened.error();
  const auto index = index_by_scan(**opened, file.id, file.bytes);
  if (!index) return index.error();
  auto done = disk::replace_file(disk, index_path(root, log, file.id), encode_index_file(*index));
  if (!done && done.error().code == Errc::full) return {};
  return done;
}

// Those that are whole (RD-10). What is lost, damaged or covered by a larger one is removed: upkeep makes it
// again.
SealedDirectories load_directories(disk::Disk& disk, const std::string& root, const LogImage& image) {
  auto ranges = image.directories;
  std::ranges::sort(ranges, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  });
  SealedDirectories good;
  for (const auto& [first, last] : ranges) {
    const std::string path = directory_path(root, image.id, first, last);
    auto mapping = disk.map(path);
    const bool apart = good.empty() || good.back()->last() < first;
    if (mapping && apart) {
      auto directory = SealedDirectory::over(std::move(*mapping), image.id, first, last);
      if (directory) good.push_back(std::move(*directory));
      if (directory) continue;
    }
    ignore(disk.remove_file(path), "it is not used and is tried again at the next open");
  }
  return good;
}

}  // namespace

Result<LogState> settle_log(disk::Disk& disk, const std::string& root, LogImage image, std::uint64_t cut) {
  const std::string directory = log_directory(root, image.id);
  for (const auto& name : image.leftovers)
    if (auto done = remove_if_there(disk, directory + "/" + name); !done) return std::move(done).error();

  LogState state;
  if (!image.files.empty()) {
    const FoundFile& active = image.files.back();
    state.active.id = active.id;
    state.active.length = end_below(image, cut);
    state.active.first_seq = std::min(active.first_seq, cut);
    state.active.highest_seq = std::min(image.highest_seq, cut - 1);
    auto done = cut_active(disk, record_file(root, image.id, active.id), active, state.active.length, cut);
    if (!done) return std::move(done).error();
    if (!state.active.empty()) state.active.opened_us = image.active_since_us;
    image.files.pop_back();
  }
  std::uint64_t next_first_seq = state.active.first_seq;
  for (auto file = image.files.rbegin(); file != image.files.rend(); ++file) {
    state.sealed.push_back({.id = file->id,
                            .bytes = file->bytes,
                            .first_seq = file->first_seq,
                            .highest_seq = next_first_seq - 1,
                            .generation = 0});
    next_first_seq = file->first_seq;
    if (!file->index_missing) continue;
    if (auto done = write_missing_index(disk, root, image.id, *file); !done) return std::move(done).error();
  }
  std::ranges::reverse(state.sealed);
  state.directories = load_directories(disk, root, image);
  state.unlisted = std::move(image.unlisted);
  for (const auto& record : image.active_records) {
    if (record.position >= state.active.length) continue;
    state.active.oldest_us =
        state.active.oldest_us == 0 ? record.created_at : std::min(state.active.oldest_us, record.created_at);
    state.active.index.add(record);
  }
  if (auto done = disk.sync_dir(directory); !done) return std::move(done).error();
  return state;
}

Status sweep_dead(disk::Disk& disk, const std::string& directory) {
  const auto names = disk.list(directory);
  if (!names) return names.error();
  for (const auto& entry : *names)
    if (auto done = remove_if_there(disk, directory + "/" + entry.name); !done) return done;
  return disk.remove_dir(directory);
}

}  // namespace queen::qlog::detail
