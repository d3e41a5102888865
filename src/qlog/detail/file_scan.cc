#include "qlog/detail/file_scan.h"

#include <fmt/format.h>

#include <algorithm>

namespace queen::qlog::detail {
namespace {

constexpr std::uint64_t kChunkBytes = 1ULL << 20;
// An index has 48 bytes for each record of at least 49 bytes.
constexpr std::uint64_t kIndexBytesSpare = 4096;

// Whether a record could start here, from its fixed part alone: cheap enough to ask at every byte.
bool may_be_record(const char* fixed, std::uint64_t room, std::uint64_t seq_max) {
  const auto length = load_le<std::uint32_t>(fixed);
  if (length < kRecordLengthMin || length > kRecordBytesMax || length > room - sizeof length) return false;
  const auto seq = load_le<std::uint64_t>(fixed + 12);
  return seq >= 1 && seq <= seq_max;
}

Result<std::optional<GoodRecord>> verify_at(disk::File& file, std::uint64_t position, std::uint32_t length) {
  Bytes bytes(std::size_t{length} + sizeof length, '\0');
  const auto got = file.pread(position, bytes);
  if (!got) return got.error();
  const auto found = scan_record(BytesView(bytes).substr(0, *got));
  if (found.outcome != Scan::record) return std::optional<GoodRecord>{};
  return std::optional(GoodRecord{position, found.record.seq});
}

}  // namespace

Result<BytesView> FileScanner::bytes_at(std::uint64_t position, std::uint64_t size) {
  const std::uint64_t left = position < size_ ? size_ - position : 0;
  size = std::min(size, left);
  if (position < buffer_at_ || position + size > buffer_at_ + buffer_.size()) {
    buffer_.resize(std::min(std::max(size, kChunkBytes), left));
    const auto got = file_.pread(position, buffer_);
    if (!got) return got.error();
    buffer_.resize(*got);
    buffer_at_ = position;
  }
  return BytesView(buffer_).substr(position - buffer_at_, size);
}

Result<ScanResult> FileScanner::next() {
  auto bytes = bytes_at(position_, sizeof(std::uint32_t));
  if (!bytes) return std::move(bytes).error();
  if (bytes->size() == sizeof(std::uint32_t)) {
    const auto length = load_le<std::uint32_t>(bytes->data());
    // Lengths that are no lengths are judged by scan_record, on the word alone.
    const bool plausible = length >= kRecordLengthMin && length <= kRecordBytesMax;
    if (plausible && length > size_ - position_ - sizeof length)
      return ScanResult{.outcome = Scan::torn, .record = {}, .bytes = 0};
    if (plausible) bytes = bytes_at(position_, std::uint64_t{length} + sizeof length);
    if (!bytes) return std::move(bytes).error();
  }
  ScanResult found = scan_record(*bytes);
  if (found.outcome == Scan::record) position_ += found.bytes;
  return found;
}

Result<std::optional<std::uint64_t>> first_non_zero(disk::File& file, std::uint64_t size,
                                                    std::uint64_t from) {
  Bytes chunk;
  for (std::uint64_t at = from; at < size; at += chunk.size()) {
    chunk.resize(std::min(kChunkBytes, size - at));
    const auto got = file.pread(at, chunk);
    if (!got) return got.error();
    const auto found = std::string_view(chunk).substr(0, *got).find_first_not_of('\0');
    if (found != std::string_view::npos) return std::optional(at + found);
    if (*got < chunk.size()) break;
  }
  return std::optional<std::uint64_t>{};
}

Result<std::optional<GoodRecord>> find_good_record(disk::File& file, std::uint64_t size, std::uint64_t from,
                                                   std::uint64_t seq_max) {
  Bytes chunk;
  while (from < size && size - from >= kRecordFixedBytes) {
    chunk.resize(std::min(kChunkBytes, size - from));
    const auto got = file.pread(from, chunk);
    if (!got) return got.error();
    if (*got < kRecordFixedBytes) break;
    const std::uint64_t starts = *got - kRecordFixedBytes + 1;
    for (std::uint64_t i = 0; i < starts; ++i) {
      if (!may_be_record(chunk.data() + i, size - from - i, seq_max)) continue;
      const auto good = verify_at(file, from + i, load_le<std::uint32_t>(chunk.data() + i));
      if (!good || *good) return good;
    }
    from += starts;
  }
  return std::optional<GoodRecord>{};
}

IndexRecord index_record_of(const Record& record, std::uint64_t position, std::size_t bytes) {
  return {.pid = record.pid,
          .base_offset = record.base_offset,
          .end = record.base_offset + record.count,
          .created_at = record.created_at,
          .position = position,
          .count = record.count,
          .length = static_cast<std::uint32_t>(bytes)};
}

Result<IndexFile> read_index_file(disk::Disk& disk, const std::string& path, std::uint32_t file_id,
                                  std::uint64_t file_bytes) {
  const auto bytes = disk::read_file(disk, path, kIndexHeaderBytes + file_bytes + kIndexBytesSpare);
  if (!bytes) return bytes.error();
  auto index = decode_index_file(*bytes);
  if (!index) return index;
  if (index->file_id != file_id || index->file_bytes != file_bytes)
    return Error{Errc::corrupt,
                 fmt::format("{} describes file {} of {} bytes", path, index->file_id, index->file_bytes)};
  return index;
}

Result<IndexFile> index_by_scan(disk::File& file, std::uint32_t file_id, std::uint64_t file_bytes) {
  IndexFile index{.file_id = file_id, .file_bytes = file_bytes, .records = {}};
  FileScanner scanner(file, file_bytes);
  while (scanner.position() < file_bytes) {
    const std::uint64_t position = scanner.position();
    const auto found = scanner.next();
    if (!found) return found.error();
    if (found->outcome != Scan::record)
      return Error{Errc::corrupt, fmt::format("file {} byte {}: damaged record", file_id, position)};
    if (found->record.kind == RecordKind::message)
      index.records.push_back(index_record_of(found->record, position, found->bytes));
  }
  sort_records(index.records);
  return index;
}

}  // namespace queen::qlog::detail
