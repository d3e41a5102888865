// Feeds any bytes to everything that reads a queue log's formats: records, message frames, compressed
// payloads, file headers, index files. Nothing may crash, read beyond the input or allocate beyond the
// limits.
#include <cstddef>
#include <cstdint>

#include "base/invariant.h"
#include "qlog/detail/index_file.h"
#include "qlog/record.h"

namespace {

using queen::BytesView;

// A content size is the frame's own claim, up to 256 MiB: larger ones than this are left out here for speed
// only.
constexpr std::size_t kDecompressFromBytesMax = 64 << 10;

void read_payload(const queen::qlog::Record& record) {
  const BytesView payload = record.payload();
  if (!record.compressed) {
    (void)queen::qlog::decode_frames(payload, record.count);
    return;
  }
  const auto raw = queen::qlog::decompress_payload(payload);
  if (raw) (void)queen::qlog::decode_frames(*raw, record.count);
}

void scan_all(BytesView bytes) {
  while (!bytes.empty()) {
    const auto found = queen::qlog::scan_record(bytes);
    if (found.outcome != queen::qlog::Scan::record) return;
    INVARIANT(found.bytes > 0 && found.bytes <= bytes.size(), "a record of {} bytes in {}", found.bytes,
              bytes.size());
    if (found.record.kind == queen::qlog::RecordKind::message) read_payload(found.record);
    if (found.record.kind == queen::qlog::RecordKind::entry_stub)
      (void)queen::qlog::decode_stub_body(found.record.body);
    bytes.remove_prefix(found.bytes);
  }
}

// The checksum keeps almost every mutation out, so the same bytes are also tried as the body of a good
// record.
void scan_as_body(BytesView bytes) {
  if (bytes.empty()) return;
  const auto kind = static_cast<std::uint8_t>(bytes.front());
  queen::qlog::Record record;
  record.kind = static_cast<queen::qlog::RecordKind>(kind & 0x7F);
  record.compressed = (kind & 0x80) != 0;
  record.count = kind >> 2 & 7;
  queen::Bytes whole;
  append_record(whole, record, bytes.substr(1));
  scan_all(whole);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const BytesView bytes(reinterpret_cast<const char*>(data), size);
  scan_all(bytes);
  scan_as_body(bytes);
  (void)queen::qlog::decode_file_header(bytes);
  (void)queen::qlog::decode_frames(bytes, 3);
  (void)queen::qlog::decode_frames(bytes, 0xFFFF'FFFF);
  (void)queen::qlog::detail::decode_index_file(bytes);
  if (size <= kDecompressFromBytesMax) (void)queen::qlog::decompress_payload(bytes);
  return 0;
}
