#include "qlog/detail/index_file.h"

#include <algorithm>
#include <tuple>

#include "base/hash.h"
#include "qlog/record.h"

namespace queen::qlog::detail {
namespace {

constexpr std::string_view kMagic{"QQIDX1\0\0", 8};

Error damaged(const char* field) {
  return {Errc::corrupt, std::string("index file: ") + field};
}

IndexRecord decode_record(ByteReader& reader) {
  IndexRecord record;
  record.pid = reader.le<std::uint64_t>();
  record.base_offset = reader.le<std::uint64_t>();
  record.end = reader.le<std::uint64_t>();
  record.created_at = reader.le<std::int64_t>();
  record.position = reader.le<std::uint64_t>();
  record.count = reader.le<std::uint32_t>();
  record.length = reader.le<std::uint32_t>();
  return record;
}

bool holds(const IndexRecord& record, std::uint64_t file_bytes) {
  return record.end >= record.base_offset && record.end - record.base_offset == record.count &&
         record.length >= kRecordFixedBytes && record.length <= kRecordBytesMax + sizeof(std::uint32_t) &&
         record.position >= kFileHeaderBytes && record.position <= file_bytes &&
         record.length <= file_bytes - record.position;
}

bool before(const IndexRecord& a, const IndexRecord& b) {
  return std::tie(a.pid, a.base_offset) < std::tie(b.pid, b.base_offset);
}

}  // namespace

std::span<const IndexRecord> IndexFile::of(std::uint64_t pid) const {
  const auto range = std::ranges::equal_range(records, pid, {}, &IndexRecord::pid);
  return {range.begin(), range.end()};
}

Bytes encode_index_file(const IndexFile& index) {
  Bytes body;
  body.reserve(index.records.size() * kIndexRecordBytes);
  for (const auto& record : index.records) {
    append_le(body, record.pid);
    append_le(body, record.base_offset);
    append_le(body, record.end);
    append_le(body, record.created_at);
    append_le(body, record.position);
    append_le(body, record.count);
    append_le(body, record.length);
  }
  Bytes bytes(kMagic);
  bytes.reserve(kIndexHeaderBytes + body.size());
  append_le(bytes, index.file_id);
  append_le(bytes, static_cast<std::uint32_t>(index.records.size()));
  append_le(bytes, static_cast<std::uint32_t>(kIndexRecordBytes));
  append_le(bytes, index.file_bytes);
  append_le(bytes, xxh3_64(body));
  append_le(bytes, xxh3_64(bytes));
  bytes.append(body);
  return bytes;
}

Result<IndexFile> decode_index_file(BytesView bytes) {
  if (bytes.size() < kIndexHeaderBytes) return damaged("too short");
  ByteReader reader(bytes);
  if (reader.take(kMagic.size()) != kMagic) return damaged("magic");
  IndexFile index;
  index.file_id = reader.le<std::uint64_t>();
  const auto count = reader.le<std::uint32_t>();
  if (reader.le<std::uint32_t>() != kIndexRecordBytes) return damaged("record size");
  index.file_bytes = reader.le<std::uint64_t>();
  const auto records_check = reader.le<std::uint64_t>();
  if (reader.le<std::uint64_t>() != xxh3_64(bytes.substr(0, 40))) return damaged("header checksum");
  if (reader.left() != std::size_t{count} * kIndexRecordBytes) return damaged("length");
  if (records_check != xxh3_64(reader.rest())) return damaged("record checksum");
  index.records.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const IndexRecord record = decode_record(reader);
    if (!holds(record, index.file_bytes)) return damaged("record outside the file");
    if (i > 0 && !before(index.records.back(), record)) return damaged("order");
    index.records.push_back(record);
  }
  return index;
}

void sort_records(std::vector<IndexRecord>& records) {
  std::ranges::sort(records, before);
}

std::vector<IndexRecord> ActiveIndex::sorted() const {
  std::vector<IndexRecord> all;
  all.reserve(records_);
  for (const auto& [pid, records] : by_pid_) all.insert(all.end(), records.begin(), records.end());
  sort_records(all);
  return all;
}

}  // namespace queen::qlog::detail
