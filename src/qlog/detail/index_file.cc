#include "qlog/detail/index_file.h"

#include <algorithm>
#include <tuple>

#include "base/hash.h"
#include "qlog/record.h"

namespace queen::qlog::detail {
namespace {

constexpr std::string_view kMagic{"QQIDX1\0\0", 8};
constexpr std::size_t kHeaderCheckAt = 40;

Error damaged(const char* field) {
  return {Errc::corrupt, std::string("index file: ") + field};
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

void IndexEncoder::add(const IndexRecord& record) {
  append_le(bytes_, record.pid);
  append_le(bytes_, record.base_offset);
  append_le(bytes_, record.end);
  append_le(bytes_, record.created_at);
  append_le(bytes_, record.position);
  append_le(bytes_, record.count);
  append_le(bytes_, record.length);
}

Bytes IndexEncoder::finish(std::uint64_t file_id, std::uint64_t file_bytes) && {
  const BytesView records = BytesView(bytes_).substr(kIndexHeaderBytes);
  Bytes header(kMagic);
  append_le(header, file_id);
  append_le(header, static_cast<std::uint32_t>(records.size() / kIndexRecordBytes));
  append_le(header, static_cast<std::uint32_t>(kIndexRecordBytes));
  append_le(header, file_bytes);
  append_le(header, xxh3_64(records));
  append_le(header, xxh3_64(header));
  bytes_.replace(0, kIndexHeaderBytes, header);
  return std::move(bytes_);
}

Bytes encode_index_file(const IndexFile& index) {
  IndexEncoder encoder(index.records.size());
  for (const auto& record : index.records) encoder.add(record);
  return std::move(encoder).finish(index.file_id, index.file_bytes);
}

IndexRecord index_record_at(BytesView bytes, std::size_t i) {
  ByteReader reader(bytes.substr(kIndexHeaderBytes + i * kIndexRecordBytes, kIndexRecordBytes));
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

Result<IndexHeader> verify_index_file(BytesView bytes) {
  if (bytes.size() < kIndexHeaderBytes) return damaged("too short");
  ByteReader reader(bytes);
  if (reader.take(kMagic.size()) != kMagic) return damaged("magic");
  IndexHeader header;
  header.file_id = reader.le<std::uint64_t>();
  header.count = reader.le<std::uint32_t>();
  if (reader.le<std::uint32_t>() != kIndexRecordBytes) return damaged("record size");
  header.file_bytes = reader.le<std::uint64_t>();
  const auto records_check = reader.le<std::uint64_t>();
  if (reader.le<std::uint64_t>() != xxh3_64(bytes.substr(0, kHeaderCheckAt)))
    return damaged("header checksum");
  if (reader.left() != header.count * kIndexRecordBytes) return damaged("length");
  if (records_check != xxh3_64(reader.rest())) return damaged("record checksum");
  IndexRecord last;
  for (std::size_t i = 0; i < header.count; ++i) {
    const IndexRecord record = index_record_at(bytes, i);
    if (!holds(record, header.file_bytes)) return damaged("record outside the file");
    if (i > 0 && !before(last, record)) return damaged("order");
    last = record;
  }
  return header;
}

Result<IndexFile> decode_index_file(BytesView bytes) {
  const auto header = verify_index_file(bytes);
  if (!header) return header.error();
  IndexFile index{.file_id = header->file_id, .file_bytes = header->file_bytes, .records = {}};
  index.records.reserve(header->count);
  for (std::size_t i = 0; i < header->count; ++i) index.records.push_back(index_record_at(bytes, i));
  return index;
}

void sort_records(std::vector<IndexRecord>& records) {
  std::ranges::sort(records, before);
}

}  // namespace queen::qlog::detail
