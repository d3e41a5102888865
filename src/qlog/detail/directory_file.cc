#include "qlog/detail/directory_file.h"

#include <algorithm>
#include <tuple>

#include "base/hash.h"

namespace queen::qlog::detail {
namespace {

constexpr std::string_view kMagic{"QDIRX1\0\0", 8};
constexpr std::size_t kHeaderCheckAt = 48;

Error damaged(const char* field) {
  return {Errc::corrupt, std::string("directory file: ") + field};
}

DirectoryRow decode_row(BytesView bytes) {
  ByteReader reader(bytes);
  DirectoryRow row;
  row.pid = reader.le<std::uint64_t>();
  row.first_offset = reader.le<std::uint64_t>();
  row.end = reader.le<std::uint64_t>();
  row.last_stamp = reader.le<std::int64_t>();
  row.file_id = reader.le<std::uint32_t>();
  return row;
}

// Offsets and files of a partition ascend together.
bool follows(const DirectoryRow& before, const DirectoryRow& row) {
  if (before.pid != row.pid) return before.pid < row.pid;
  return before.end <= row.first_offset && before.file_id < row.file_id &&
         before.last_stamp <= row.last_stamp;
}

Status verify_rows(BytesView rows, const std::vector<std::uint32_t>& files) {
  DirectoryRow before;
  for (std::size_t at = 0; at < rows.size(); at += kDirectoryRowBytes) {
    const DirectoryRow row = decode_row(rows.substr(at, kDirectoryRowBytes));
    if (row.end < row.first_offset) return damaged("offsets of a row");
    if (at > 0 && !follows(before, row)) return damaged("order of the rows");
    if (!std::ranges::binary_search(files, row.file_id)) return damaged("file of a row");
    before = row;
  }
  return {};
}

}  // namespace

void append_row(Bytes& to, const DirectoryRow& row) {
  append_le(to, row.pid);
  append_le(to, row.first_offset);
  append_le(to, row.end);
  append_le(to, row.last_stamp);
  append_le(to, row.file_id);
}

Bytes encode_directory_files(const std::vector<std::uint32_t>& files) {
  Bytes bytes;
  for (const std::uint32_t id : files) append_le(bytes, id);
  return bytes;
}

Bytes encode_directory_header(const DirectoryHeader& header, std::uint64_t content_check) {
  Bytes bytes(kMagic);
  append_le(bytes, header.log.value);
  append_le(bytes, header.rows);
  append_le(bytes, static_cast<std::uint32_t>(header.files.size()));
  append_le(bytes, static_cast<std::uint32_t>(kDirectoryRowBytes));
  append_le(bytes, std::uint64_t{0});
  append_le(bytes, content_check);
  append_le(bytes, xxh3_64(bytes));
  return bytes;
}

Result<DirectoryHeader> verify_directory_file(BytesView bytes) {
  if (bytes.size() < kDirectoryHeaderBytes) return damaged("too short");
  ByteReader reader(bytes);
  if (reader.take(kMagic.size()) != kMagic) return damaged("magic");
  DirectoryHeader header;
  header.log.value = reader.le<std::uint64_t>();
  header.rows = reader.le<std::uint64_t>();
  const auto files = reader.le<std::uint32_t>();
  if (reader.le<std::uint32_t>() != kDirectoryRowBytes) return damaged("row size");
  if (reader.le<std::uint64_t>() != 0) return damaged("reserved");
  const auto content_check = reader.le<std::uint64_t>();
  if (reader.le<std::uint64_t>() != xxh3_64(bytes.substr(0, kHeaderCheckAt)))
    return damaged("header checksum");
  const std::uint64_t left = reader.left();
  const std::uint64_t files_bytes = std::uint64_t{files} * sizeof(std::uint32_t);
  if (files == 0 || files_bytes > left || header.rows > (left - files_bytes) / kDirectoryRowBytes ||
      header.rows * kDirectoryRowBytes != left - files_bytes)
    return damaged("length");
  if (content_check != xxh3_64(reader.rest())) return damaged("content checksum");
  header.files.reserve(files);
  for (std::uint32_t i = 0; i < files; ++i) header.files.push_back(reader.le<std::uint32_t>());
  if (header.files.front() == 0 ||
      std::ranges::adjacent_find(header.files, std::greater_equal{}) != header.files.end())
    return damaged("order of the files");
  if (auto done = verify_rows(reader.rest(), header.files); !done) return std::move(done).error();
  return header;
}

Result<std::shared_ptr<const SealedDirectory>> SealedDirectory::over(std::unique_ptr<disk::Mapping> mapping,
                                                                     LogId log, std::uint32_t first,
                                                                     std::uint32_t last) {
  auto directory = std::make_shared<SealedDirectory>();
  directory->mapping_ = std::move(mapping);
  const disk::ReadingMapped reading(*directory->mapping_);
  auto header = verify_directory_file(directory->mapping_->bytes());
  if (!header) return std::move(header).error();
  directory->header_ = std::move(*header);
  if (directory->header_.log != log || directory->first() != first || directory->last() != last)
    return damaged("name");
  directory->let_go();
  return std::shared_ptr<const SealedDirectory>(std::move(directory));
}

DirectoryRow SealedDirectory::row_at(BytesView bytes, std::uint64_t place) const {
  const std::uint64_t rows_at = kDirectoryHeaderBytes + header_.files.size() * sizeof(std::uint32_t);
  return decode_row(bytes.substr(rows_at + place * kDirectoryRowBytes, kDirectoryRowBytes));
}

DirectoryRow SealedDirectory::at(std::uint64_t place) const {
  const disk::ReadingMapped reading(*mapping_);
  return row_at(mapping_->bytes(), place);
}

std::optional<DirectoryRow> SealedDirectory::at(std::uint64_t place, std::uint64_t pid) const {
  if (place >= header_.rows) return std::nullopt;
  const DirectoryRow row = at(place);
  return row.pid == pid ? std::optional(row) : std::nullopt;
}

SealedDirectory::Found SealedDirectory::find(const IndexQuery& query) const {
  const disk::ReadingMapped reading(*mapping_);
  const BytesView bytes = mapping_->bytes();
  std::uint64_t from = 0, to = header_.rows;
  while (from < to) {
    const std::uint64_t middle = from + (to - from) / 2;
    const DirectoryRow row = row_at(bytes, middle);
    const bool below =
        row.pid < query.pid || (row.pid == query.pid && !query.satisfied_by(row.end, row.last_stamp));
    (below ? from : to) = below ? middle + 1 : middle;
  }
  Found found{.place = from, .ends = from > 0 && row_at(bytes, from - 1).pid == query.pid};
  if (from == header_.rows) return found;
  const DirectoryRow row = row_at(bytes, from);
  if (row.pid == query.pid && row.first_offset <= query.offset) found.ends = true;
  return found;
}

}  // namespace queen::qlog::detail
