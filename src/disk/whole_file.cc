// Small files, read and replaced as a whole.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "disk/disk.h"

namespace queen::disk {
namespace {

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status write_synced(Disk& disk, const std::string& path, BytesView bytes) {
  auto file = disk.open(path, Open::create);
  if (!file) return std::move(file).error();
  // A temporary that a crash left may be longer than what is written now.
  if (auto done = (*file)->truncate(0); !done) return done;
  if (auto done = (*file)->pwrite(0, bytes); !done) return done;
  return (*file)->sync();
}

class CopiedFile final : public Mapping {
 public:
  CopiedFile(Bytes bytes, std::string path) : bytes_(std::move(bytes)), path_(std::move(path)) {}
  BytesView bytes() const override { return bytes_; }
  const char* path() const override { return path_.c_str(); }

 private:
  const Bytes bytes_;
  const std::string path_;
};

}  // namespace

Result<std::unique_ptr<Mapping>> Disk::map(const std::string& path) {
  auto bytes = read_file(*this, path, std::numeric_limits<std::uint64_t>::max());
  if (!bytes) return std::move(bytes).error();
  return std::unique_ptr<Mapping>(std::make_unique<CopiedFile>(std::move(*bytes), path));
}

Status File::allocate(std::uint64_t bytes) {
  const Bytes zeros(std::min<std::uint64_t>(bytes, 1ULL << 20), '\0');
  for (std::uint64_t at = 0; at < bytes; at += zeros.size()) {
    const std::size_t piece = std::min<std::uint64_t>(zeros.size(), bytes - at);
    if (auto done = pwrite(at, BytesView(zeros).substr(0, piece)); !done) return done;
  }
  return {};
}

Result<Bytes> read_file(Disk& disk, const std::string& path, std::uint64_t bytes_max) {
  auto file = disk.open(path, Open::read);
  if (!file) return std::move(file).error();
  const auto size = (*file)->size();
  if (!size) return size.error();
  if (*size > bytes_max)
    return Error{Errc::invalid, fmt::format("{} has {} bytes, more than {}", path, *size, bytes_max)};
  Bytes bytes(*size, '\0');
  const auto got = (*file)->pread(0, bytes);
  if (!got) return got.error();
  bytes.resize(*got);
  return bytes;
}

Status replace_file(Disk& disk, const std::string& path, BytesView bytes) {
  const std::string temporary = path + ".tmp";
  auto done = write_synced(disk, temporary, bytes);
  if (done) done = disk.rename(temporary, path);
  if (!done) {
    ignore(disk.remove_file(temporary), "the failure above is the one to report");
    return done;
  }
  return disk.sync_dir(parent_of(path));
}

}  // namespace queen::disk
