// Which log a record goes to, and the two files that fix it: storage.md 3.1.
#include <fmt/format.h>

#include <charconv>

#include "base/hash.h"
#include "base/text.h"
#include "qlog/detail/layout_files.h"
#include "qlog/queue_logs.h"

namespace queen::qlog {
namespace {

constexpr std::uint64_t kFirstSharedLog = 2;
constexpr std::uint32_t kShardsMax = 4096;
constexpr std::uint32_t kLanesMax = 64;
constexpr std::uint64_t kLayoutFileBytesMax = 64;

std::uint64_t never_zero(std::uint64_t id) {
  return id == 0 ? 1 : id;
}

}  // namespace

LogId Layout::queue_id(std::string_view tenant, std::string_view queue) {
  Bytes key(tenant);
  key.push_back('\x1F');
  key.append(queue);
  return {never_zero(xxh3_64(key))};
}

LogId Layout::of_queue(std::string_view tenant, std::string_view queue) const {
  return of_partition(queue_id(tenant, queue), Pid{0});
}

LogId Layout::of_partition(LogId queue_id, Pid pid) const {
  if (shards > 0) return {kFirstSharedLog + queue_id.value % shards};
  const std::uint64_t lane = lanes > 1 ? pid.value % lanes : 0;
  if (lane == 0) return queue_id;
  char key[16];
  store_le(key, queue_id.value);
  store_le(key + 8, lane);
  return {never_zero(xxh3_64({key, sizeof key}))};
}

namespace detail {
namespace {

struct LayoutFile {
  const char* name;
  std::uint32_t least, most;
};
constexpr LayoutFile kLanesFile{"LANES", 1, kLanesMax};
constexpr LayoutFile kShardsFile{"SHARDS", 0, kShardsMax};

std::optional<std::uint32_t> parse_layout_number(BytesView text, const LayoutFile& file) {
  if (!text.ends_with('\n')) return std::nullopt;
  text.remove_suffix(1);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (value < file.least || value > file.most) return std::nullopt;
  return value;
}

Result<std::optional<std::uint32_t>> read_layout_file(disk::Disk& disk, const std::string& directory,
                                                      const LayoutFile& file) {
  const std::string path = directory + "/" + file.name;
  const auto text = disk::read_file(disk, path, kLayoutFileBytesMax);
  if (!text && text.error().code == Errc::not_found) return std::optional<std::uint32_t>{};
  if (!text && text.error().code != Errc::invalid) return text.error();
  const auto number = text ? parse_layout_number(*text, file) : std::nullopt;
  if (!number) {
    return Error{
        Errc::corrupt,
        fmt::format("{} holds {}, not one decimal number from {} to {} and a line feed; write the "
                    "number the directory was created with, or restore a backup",
                    path, text ? fmt::format("\"{}\"", to_valid_utf8(trim(*text))) : text.error().what,
                    file.least, file.most)};
  }
  return number;
}

Error missing(const std::string& directory, const LayoutFile& file) {
  return {
      Errc::corrupt,
      fmt::format("{}/{} is missing beside existing logs: without it messages would be looked for in the "
                  "wrong log; write the number the directory was created with ({} to {}, a line feed behind "
                  "it), or restore a backup",
                  directory, file.name, file.least, file.most)};
}

Status agrees(const std::string& directory, const LayoutFile& file, std::optional<std::uint32_t> found,
              std::uint32_t known) {
  if (!found || *found == known) return {};
  return Error{
      Errc::corrupt,
      fmt::format("{}/{} holds {} and the last checkpoint was made under {}: messages would be looked "
                  "for in the wrong log; write {} and a line feed, or restore a backup",
                  directory, file.name, *found, known, known)};
}

}  // namespace

Result<LayoutOnDisk> read_layout(disk::Disk& disk, const std::string& directory, HasLogs has_logs,
                                 const std::optional<Layout>& known) {
  LayoutOnDisk found;
  const auto lanes = read_layout_file(disk, directory, kLanesFile);
  if (!lanes) return lanes.error();
  const auto shards = read_layout_file(disk, directory, kShardsFile);
  if (!shards) return shards.error();
  if (has_logs == HasLogs::yes && !*lanes) return missing(directory, kLanesFile);
  if (has_logs == HasLogs::yes && !*shards) return missing(directory, kShardsFile);
  if (known) {
    if (auto same = agrees(directory, kLanesFile, *lanes, known->lanes); !same)
      return std::move(same).error();
    if (auto same = agrees(directory, kShardsFile, *shards, known->shards); !same)
      return std::move(same).error();
  }
  found.lanes = *lanes;
  found.shards = *shards;
  return found;
}

Status write_layout(disk::Disk& disk, const std::string& directory, const Layout& layout) {
  auto done = disk::replace_file(disk, directory + "/" + kLanesFile.name, fmt::format("{}\n", layout.lanes));
  if (!done) return done;
  return disk::replace_file(disk, directory + "/" + kShardsFile.name, fmt::format("{}\n", layout.shards));
}

}  // namespace detail
}  // namespace queen::qlog
