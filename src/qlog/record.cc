// docs/formats/qlog.md "File header" and "Record".
#include "qlog/record.h"

#include <algorithm>

namespace queen::qlog {
namespace {

constexpr std::string_view kMagic{"QNQLOG1\0", 8};
constexpr std::size_t kCheckAt = 4;
constexpr std::size_t kCheckedFrom = 12;
constexpr std::size_t kStubBodyBytes = 12;
constexpr std::size_t kHashBytes = 16;
constexpr std::uint8_t kCompressedBit = 0x80;
static_assert(kRecordFixedBytes == kRecordLengthMin + sizeof(std::uint32_t));
static_assert(kStubBytes == kRecordFixedBytes + kStubBodyBytes);

// What a kind demands of the rest; everything else makes the record unreadable (QL-5).
bool kind_holds(std::uint8_t kind_byte, const Record& record) {
  switch (kind_byte & ~kCompressedBit) {
    case static_cast<std::uint8_t>(RecordKind::message):
      return record.body.size() / kHashBytes >= record.count;
    case static_cast<std::uint8_t>(RecordKind::entry):
      return !record.compressed && record.count == 0;
    case static_cast<std::uint8_t>(RecordKind::entry_stub):
      return !record.compressed && record.count == 0 && record.body.size() == kStubBodyBytes;
    default:
      return false;
  }
}

bool all_zero(BytesView bytes) {
  return std::ranges::all_of(bytes, [](char byte) { return byte == 0; });
}

}  // namespace

Bytes encode_file_header(const FileHeader& header) {
  Bytes bytes(kMagic);
  append_le(bytes, header.file_id);
  append_le(bytes, header.first_seq);
  append_le(bytes, std::uint64_t{0});
  return bytes;
}

Result<FileHeader> decode_file_header(BytesView bytes) {
  if (bytes.size() < kFileHeaderBytes) return Error{Errc::corrupt, "magic: shorter than a file header"};
  ByteReader reader(bytes.substr(0, kFileHeaderBytes));
  if (reader.take(kMagic.size()) != kMagic) return Error{Errc::corrupt, "magic"};
  FileHeader header;
  header.file_id = reader.le<std::uint64_t>();
  header.first_seq = reader.le<std::uint64_t>();
  if (header.file_id == 0) return Error{Errc::corrupt, "file id"};
  if (reader.le<std::uint64_t>() != 0) return Error{Errc::corrupt, "reserved"};
  return header;
}

void append_record(Bytes& to, const Record& record, BytesView body_front, BytesView body_back) {
  const std::size_t at = to.size();
  const std::size_t length = kRecordLengthMin + body_front.size() + body_back.size();
  char fixed[kRecordFixedBytes] = {};
  store_le(fixed, static_cast<std::uint32_t>(length));
  store_le(fixed + 12, record.seq);
  store_le(fixed + 20, record.pid);
  store_le(fixed + 28, record.base_offset);
  store_le(fixed + 36, record.count);
  store_le(fixed + 40, record.created_at);
  fixed[48] = static_cast<char>(static_cast<std::uint8_t>(record.kind) |
                                (record.compressed ? kCompressedBit : std::uint8_t{0}));
  to.append(fixed, sizeof fixed);
  to.append(body_front);
  to.append(body_back);
  store_le(to.data() + at + kCheckAt, xxh3_64(BytesView(to).substr(at + kCheckedFrom)));
}

Bytes encode_stub_body(BytesView entry) {
  Bytes body;
  append_le(body, xxh3_64(entry));
  append_le(body, static_cast<std::uint32_t>(entry.size()));
  return body;
}

std::optional<StubBody> decode_stub_body(BytesView body) {
  ByteReader reader(body);
  StubBody stub;
  stub.xxh3 = reader.le<std::uint64_t>();
  stub.length = reader.le<std::uint32_t>();
  if (!reader.done()) return std::nullopt;
  return stub;
}

ScanResult scan_record(BytesView bytes) {
  constexpr ScanResult kTorn{.outcome = Scan::torn, .record = {}, .bytes = 0};
  if (bytes.size() < sizeof(std::uint32_t))
    return all_zero(bytes) ? ScanResult{.outcome = Scan::end, .record = {}, .bytes = 0} : kTorn;
  const auto length = load_le<std::uint32_t>(bytes.data());
  if (length == 0) return {.outcome = Scan::end, .record = {}, .bytes = 0};
  if (length < kRecordLengthMin || length > kRecordBytesMax) return kTorn;
  const std::size_t total = sizeof length + length;
  if (bytes.size() < total) return kTorn;
  if (load_le<std::uint64_t>(bytes.data() + kCheckAt) !=
      xxh3_64(bytes.substr(kCheckedFrom, total - kCheckedFrom)))
    return kTorn;

  ByteReader reader(bytes.substr(kCheckedFrom, total - kCheckedFrom));
  ScanResult result{.outcome = Scan::record, .record = {}, .bytes = total};
  Record& record = result.record;
  record.seq = reader.le<std::uint64_t>();
  record.pid = reader.le<std::uint64_t>();
  record.base_offset = reader.le<std::uint64_t>();
  record.count = reader.le<std::uint32_t>();
  record.created_at = reader.le<std::int64_t>();
  const auto kind_byte = reader.le<std::uint8_t>();
  record.compressed = (kind_byte & kCompressedBit) != 0;
  record.kind = static_cast<RecordKind>(kind_byte & ~kCompressedBit);
  record.body = reader.rest();
  return kind_holds(kind_byte, record) ? result : kTorn;
}

}  // namespace queen::qlog
