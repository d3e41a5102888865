// The record of a queue-log file: the bytes of docs/formats/qlog.md and nothing else. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/result.h"

namespace queen::qlog {

inline constexpr std::size_t kFileHeaderBytes = 32;
inline constexpr std::size_t kRecordFixedBytes = 49;  // length word included
inline constexpr std::size_t kRecordLengthMin = 45;   // value of the length word
inline constexpr std::size_t kStubBytes = 61;         // a whole stub record
inline constexpr std::uint64_t kRecordBytesMax = 256ULL << 20;
inline constexpr std::uint64_t kUnusedFirstSeq = 0xFFFF'FFFF'FFFF'FFFFULL;  // a pre-created file
inline constexpr std::size_t kCompressFromBytes = 512;  // payload sections below stay raw (QL-7)

enum class RecordKind : std::uint8_t { message = 0, entry = 2, entry_stub = 3 };

struct FileHeader {
  std::uint64_t file_id = 0;
  std::uint64_t first_seq = 0;
};
Bytes encode_file_header(const FileHeader& header);
// Errors: corrupt, naming the field (`magic`, `file id`, `reserved`).
Result<FileHeader> decode_file_header(BytesView bytes);

// One record, decoded; `body` borrows from the bytes given to decode.
struct Record {
  RecordKind kind = RecordKind::message;
  bool compressed = false;        // message records: payload section is one zstd frame
  std::uint64_t seq = 0;          // index of the entry it belongs to
  std::uint64_t pid = 0;          // message: partition; entry parts: copies
  std::uint64_t base_offset = 0;  // message: first offset; entry parts: term
  std::uint32_t count = 0;        // message: messages
  std::int64_t created_at = 0;    // message: stamp µs; entry parts: now_us
  BytesView body;                 // message: hashes then payload section; entry: its bytes; stub: 12 bytes

  BytesView hashes() const { return body.substr(0, std::size_t{16} * count); }
  BytesView payload() const { return body.substr(std::size_t{16} * count); }
  std::uint64_t copies() const { return pid == 0 ? 1 : pid; }
  std::uint64_t term() const { return base_offset; }
};

// Appends the whole record. `body` is given in up to two pieces that are written one after the other.
void append_record(Bytes& to, const Record& record, BytesView body_front, BytesView body_back = {});
// A stub of the entry whose payload-free bytes are `entry`.
struct StubBody {
  std::uint64_t xxh3 = 0;
  std::uint32_t length = 0;
};
Bytes encode_stub_body(BytesView entry);
std::optional<StubBody> decode_stub_body(BytesView body);

// What stands at the front of `bytes`.
enum class Scan : std::uint8_t {
  record,  // a whole record that verifies
  end,     // a zero length word (or nothing)
  torn,    // anything else: too short, bad length, checksum, kind
};
struct ScanResult {
  Scan outcome = Scan::end;
  Record record;
  std::size_t bytes = 0;  // of the whole record
};
// Judges lengths before anything is read beyond them; never allocates (QL-6).
ScanResult scan_record(BytesView bytes);

// One message of a record's payload section (docs/formats/qlog.md "Message frame").
struct MessageFrame {
  bool encrypted = false;
  bool payload_zstd = false;  // payload individually compressed
  bool null_payload = false;  // the JSON value null: no bytes stored
  Uuid message_id;
  BytesView transaction_id;  // borrowed
  std::optional<Uuid> trace_id;
  std::optional<BytesView> producer_sub;
  BytesView payload;  // borrowed
};
void append_frame(Bytes& to, const MessageFrame& frame);
// Errors: corrupt. `count` frames must fill `payload` exactly (QL-15).
Result<std::vector<MessageFrame>> decode_frames(BytesView payload, std::uint32_t count);

// zstd of a payload section at `level` with its content size, or nothing when it is under kCompressFromBytes,
// the level is 0, or less than a tenth would be saved (QL-7).
std::optional<Bytes> compress_payload(BytesView raw, int level);

// The same with a context that is kept between calls: for threads that compress much. One thread at a time.
class PayloadCompressor {
 public:
  PayloadCompressor();
  ~PayloadCompressor();
  PayloadCompressor(const PayloadCompressor&) = delete;
  PayloadCompressor& operator=(const PayloadCompressor&) = delete;
  std::optional<Bytes> compress(BytesView raw, int level);

 private:
  void* context_;
};

// Bytes that a payload section has once decompressed, without doing it. Errors: corrupt (no zstd frame with a
// content size within limits).
Result<std::uint64_t> raw_payload_bytes(const Record& record);

// The one place that decompresses (QL-8). Errors: corrupt (no or too large a content size, bad frame).
Result<Bytes> decompress_payload(BytesView stored);
// The same of what a client compressed: whole zstd frames, one or more, with a content size or without.
// Errors: corrupt (anything else); full (more than `bytes_max` would come out, of which no more are
// allocated).
Result<Bytes> decompress_foreign(BytesView compressed, std::uint64_t bytes_max);

}  // namespace queen::qlog
