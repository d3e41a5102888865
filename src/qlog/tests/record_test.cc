#include "qlog/record.h"

#include <gtest/gtest.h>
// After gtest, which it uses without including it.
#include <rapidcheck/gtest.h>

#include "qlog/detail/index_file.h"
#include "support.h"

namespace queen::qlog {
namespace {

Bytes frames_of(const std::vector<std::string>& texts) {
  Bytes frames;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    MessageFrame frame;
    frame.message_id = message_uuid({7}, i);
    frame.transaction_id = "order-17";
    frame.payload = texts[i];
    append_frame(frames, frame);
  }
  return frames;
}

MessageFrame full_frame() {
  MessageFrame frame;
  frame.message_id = *Uuid::parse("0190163d-8694-739b-aea5-966c26f8ad91");
  frame.transaction_id = "order-17";
  frame.trace_id = Uuid::parse("11111111-2222-3333-4444-555555555555");
  frame.producer_sub = "svc";
  frame.payload = "{\"n\":42.00}";
  return frame;
}

Bytes message_record(BytesView payload, bool compressed = false, std::uint32_t count = 1) {
  Bytes hashes;
  for (std::uint32_t i = 0; i < count; ++i) hashes.append(xxh3_128("order-17").view());
  Bytes bytes;
  append_record(bytes,
                {.kind = RecordKind::message,
                 .compressed = compressed,
                 .seq = 5,
                 .pid = 7,
                 .base_offset = 100,
                 .count = count,
                 .created_at = 1'700'000'000'000'000,
                 .body = {}},
                hashes, payload);
  return bytes;
}

Bytes entry_record(BytesView entry, RecordKind kind = RecordKind::entry) {
  Bytes bytes;
  const Record record{.kind = kind,
                      .compressed = false,
                      .seq = 5,
                      .pid = 2,
                      .base_offset = 3,
                      .count = 0,
                      .created_at = 1'700'000'000'000'000,
                      .body = {}};
  append_record(bytes, record, kind == RecordKind::entry ? entry : BytesView(encode_stub_body(entry)));
  return bytes;
}

Bytes sample_message() {
  Bytes frame;
  append_frame(frame, full_frame());
  return message_record(frame);
}

TEST(RecordCodec, SizesAreThoseOfTheFormat) {
  EXPECT_EQ(encode_file_header({1, 1}).size(), 32u);
  EXPECT_EQ(entry_record("").size(), 49u);
  EXPECT_EQ(entry_record("any", RecordKind::entry_stub).size(), 61u);
}

TEST(RecordCodec, EncodesExactlyAsGolden) {
  EXPECT_EQ(hex_lower(sample_message()), hex_lower(golden("qlog/message.hex")));
  EXPECT_EQ(hex_lower(entry_record("the entry")), hex_lower(golden("qlog/entry.hex")));
  EXPECT_EQ(hex_lower(entry_record("the entry", RecordKind::entry_stub)), hex_lower(golden("qlog/stub.hex")));
}

TEST(RecordCodec, DecodesWhatItEncoded) {
  const Bytes bytes = sample_message();
  const Bytes followed = bytes + "more";
  const auto found = scan_record(followed);
  ASSERT_EQ(found.outcome, Scan::record);
  EXPECT_EQ(found.bytes, bytes.size());
  EXPECT_EQ(found.record.seq, 5u);
  EXPECT_EQ(found.record.pid, 7u);
  EXPECT_EQ(found.record.base_offset, 100u);
  EXPECT_EQ(found.record.count, 1u);
  EXPECT_EQ(found.record.created_at, 1'700'000'000'000'000);
  EXPECT_EQ(found.record.hashes(), xxh3_128("order-17").view());
}

TEST(RecordCodec, RejectsEveryTruncation) {
  for (const Bytes& bytes : {sample_message(), entry_record("e"), entry_record("e", RecordKind::entry_stub)})
    for (std::size_t n = 1; n < bytes.size(); ++n)
      EXPECT_EQ(scan_record(BytesView(bytes).substr(0, n)).outcome, Scan::torn) << n;
}

TEST(RecordCodec, RejectsEveryBitFlip) {
  for (const Bytes& bytes :
       {sample_message(), entry_record("e"), entry_record("e", RecordKind::entry_stub)}) {
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      Bytes flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_NE(scan_record(flipped).outcome, Scan::record) << bit;
    }
  }
}

TEST(RecordCodec, ZeroLengthIsTheEnd) {
  EXPECT_EQ(scan_record("").outcome, Scan::end);
  EXPECT_EQ(scan_record(Bytes(3, '\0')).outcome, Scan::end);
  EXPECT_EQ(scan_record(Bytes(100, '\0')).outcome, Scan::end);
  EXPECT_EQ(scan_record(Bytes("\0\0x", 3)).outcome, Scan::torn);
}

TEST(RecordCodec, LengthsOutsideTheLimitsAreDamage) {
  for (const std::uint32_t length : {1U, 44U, (256U << 20) + 1, 0xFFFF'FFFFU}) {
    Bytes bytes;
    append_le(bytes, length);
    EXPECT_EQ(scan_record(bytes + Bytes(200, 'x')).outcome, Scan::torn) << length;
  }
}

// A record with a good checksum whose kind byte or contents do not fit.
Bytes with_kind(Bytes bytes, std::uint8_t kind) {
  bytes[48] = static_cast<char>(kind);
  store_le(bytes.data() + 4, xxh3_64(BytesView(bytes).substr(12)));
  return bytes;
}

TEST(RecordCodec, UnknownKindsAreDamageThoughTheChecksumIsRight) {
  for (const std::uint8_t kind : {1, 4, 0x7F, 0x81, 0x82, 0x83})
    EXPECT_EQ(scan_record(with_kind(entry_record("twelve bytes"), kind)).outcome, Scan::torn) << int{kind};
  EXPECT_EQ(scan_record(with_kind(entry_record("short"), 3)).outcome, Scan::torn);
  EXPECT_EQ(scan_record(with_kind(message_record("payload"), 2)).outcome, Scan::torn);
}

TEST(RecordCodec, MoreHashesThanBytesAreDamage) {
  Bytes bytes = message_record("");
  store_le(bytes.data() + 36, std::uint32_t{0xFFFF'FFFF});
  EXPECT_EQ(scan_record(with_kind(bytes, 0)).outcome, Scan::torn);
}

TEST(RecordCodec, ZeroCopiesReadAsOne) {
  EXPECT_EQ(Record{}.copies(), 1u);
  Record record;
  record.pid = 3;
  EXPECT_EQ(record.copies(), 3u);
}

TEST(RecordCodec, EveryLengthOfEveryKindComesBack) {
  std::vector<std::size_t> sizes{4095, 4096, 4097};
  for (std::size_t n = 1; n <= 17; ++n) sizes.push_back(n);
  for (const std::size_t n : sizes) {
    const Bytes text(n, 'x');
    const Bytes message = message_record(text);
    EXPECT_EQ(scan_record(message).record.payload(), text);
    const Bytes entry = entry_record(text);
    EXPECT_EQ(scan_record(entry).record.body, text);
    const Bytes stub = entry_record(text, RecordKind::entry_stub);
    const auto body = decode_stub_body(scan_record(stub).record.body);
    ASSERT_TRUE(body);
    EXPECT_EQ(body->length, n);
    EXPECT_EQ(body->xxh3, xxh3_64(text));
  }
}

TEST(FileHeaderCodec, ComesBackAndNamesTheDamagedField) {
  const Bytes bytes = encode_file_header({.file_id = 9, .first_seq = 77});
  const auto header = decode_file_header(bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->file_id, 9u);
  EXPECT_EQ(header->first_seq, 77u);
  Bytes damaged = bytes;
  damaged[3] ^= 1;
  EXPECT_EQ(decode_file_header(damaged).error().what, "magic");
  damaged = bytes;
  damaged[25] ^= 1;
  EXPECT_EQ(decode_file_header(damaged).error().what, "reserved");
  damaged = bytes;
  damaged[8] = 0;
  EXPECT_EQ(decode_file_header(damaged).error().what, "file id");
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(decode_file_header(BytesView(bytes).substr(0, n))) << n;
}

TEST(MessageFrameCodec, AllFieldsComeBack) {
  Bytes bytes;
  append_frame(bytes, full_frame());
  MessageFrame null;
  null.null_payload = null.encrypted = null.payload_zstd = true;
  append_frame(bytes, null);
  const auto frames = decode_frames(bytes, 2);
  ASSERT_TRUE(frames);
  EXPECT_EQ((*frames)[0].message_id, full_frame().message_id);
  EXPECT_EQ((*frames)[0].transaction_id, "order-17");
  EXPECT_EQ((*frames)[0].trace_id, full_frame().trace_id);
  EXPECT_EQ((*frames)[0].producer_sub, "svc");
  EXPECT_EQ((*frames)[0].payload, "{\"n\":42.00}");
  EXPECT_FALSE((*frames)[0].null_payload);
  EXPECT_TRUE((*frames)[1].null_payload && (*frames)[1].encrypted && (*frames)[1].payload_zstd);
  EXPECT_FALSE((*frames)[1].trace_id || (*frames)[1].producer_sub);
}

TEST(MessageFrameCodec, FramesMustFillTheSectionExactly) {
  const Bytes frames = frames_of({"a", "b"});
  EXPECT_TRUE(decode_frames(frames, 2));
  EXPECT_FALSE(decode_frames(frames, 1));
  EXPECT_FALSE(decode_frames(frames, 3));
  EXPECT_FALSE(decode_frames(frames, 0xFFFF'FFFF));
  for (std::size_t n = 0; n < frames.size(); ++n)
    EXPECT_FALSE(decode_frames(BytesView(frames).substr(0, n), 2)) << n;
}

TEST(MessageFrameCodec, UnknownFlagsAndNullWithBytesAreDamage) {
  Bytes bytes = frames_of({"a"});
  bytes[4] = 0x20;
  EXPECT_FALSE(decode_frames(bytes, 1));
  bytes[4] = 0x10;
  EXPECT_FALSE(decode_frames(bytes, 1));
}

std::string incompressible(std::size_t bytes) {
  SeededRandom random(1);
  std::string text;
  while (text.size() < bytes) text.push_back(static_cast<char>(random.next()));
  return text;
}

TEST(Compression, StartsAt512BytesAndOnlyWhenATenthIsSaved) {
  EXPECT_FALSE(compress_payload(Bytes(511, 'a'), 1));
  EXPECT_TRUE(compress_payload(Bytes(512, 'a'), 1));
  EXPECT_FALSE(compress_payload(Bytes(512, 'a'), 0));
  EXPECT_FALSE(compress_payload(incompressible(4096), 1));
}

TEST(Compression, KeepsNoFormThatSavesLessThanATenth) {
  PayloadCompressor compressor;
  for (std::size_t noise = 0; noise <= 2000; noise += 50) {
    const Bytes raw = incompressible(noise) + Bytes(2000 - noise, 'a');
    const auto stored = compressor.compress(raw, 1);
    if (stored) {
      EXPECT_LE(stored->size() * 10, raw.size() * 9);
      EXPECT_EQ(*decompress_payload(*stored), raw);
    }
  }
}

TEST(Compression, DamagedFramesAreErrors) {
  const Bytes stored = *compress_payload(Bytes(1000, 'a') + incompressible(100), 1);
  EXPECT_FALSE(decompress_payload(stored + "x"));
  EXPECT_FALSE(decompress_payload(""));
  EXPECT_FALSE(decompress_payload("not zstd at all"));
  for (std::size_t n = 0; n < stored.size(); ++n)
    EXPECT_FALSE(decompress_payload(BytesView(stored).substr(0, n))) << n;
}

TEST(Compression, AnAbsurdContentSizeIsRefusedBeforeAllocation) {
  // Magic, a descriptor with an 8-byte content size and a single segment, then 2^60.
  Bytes frame("\x28\xB5\x2F\xFD\xE0", 5);
  append_le(frame, std::uint64_t{1} << 60);
  EXPECT_EQ(decompress_payload(frame + Bytes(20, '\0')).error().code, Errc::corrupt);
}

detail::IndexFile sample_index() {
  return {
      .file_id = 3,
      .file_bytes = 1000,
      .records = {
          {.pid = 7, .base_offset = 0, .end = 2, .created_at = 5, .position = 32, .count = 2, .length = 100},
          {.pid = 7, .base_offset = 2, .end = 3, .created_at = 6, .position = 200, .count = 1, .length = 90},
          {.pid = 8,
           .base_offset = 9,
           .end = 10,
           .created_at = 6,
           .position = 132,
           .count = 1,
           .length = 68}}};
}

TEST(IndexFileCodec, EncodesExactlyAsGolden) {
  EXPECT_EQ(hex_lower(detail::encode_index_file(sample_index())), hex_lower(golden("qlog/index.hex")));
}

TEST(IndexFileCodec, ComesBack) {
  const auto index = detail::decode_index_file(detail::encode_index_file(sample_index()));
  ASSERT_TRUE(index);
  EXPECT_EQ(index->records, sample_index().records);
}

TEST(IndexFileCodec, RejectsEveryTruncationAndBitFlip) {
  const Bytes bytes = detail::encode_index_file(sample_index());
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(detail::decode_index_file(BytesView(bytes).substr(0, n))) << n;
  EXPECT_FALSE(detail::decode_index_file(bytes + "x"));
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    Bytes flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(detail::decode_index_file(flipped)) << bit;
  }
}

TEST(IndexFileCodec, RejectsWhatDoesNotFitTheFile) {
  auto index = sample_index();
  std::swap(index.records[0], index.records[1]);
  EXPECT_FALSE(detail::decode_index_file(detail::encode_index_file(index)));
  index = sample_index();
  index.records[1].position = 950;
  EXPECT_FALSE(detail::decode_index_file(detail::encode_index_file(index)));
  index = sample_index();
  index.records[0].end = 5;
  EXPECT_FALSE(detail::decode_index_file(detail::encode_index_file(index)));
}

RC_GTEST_PROP(RecordScan, AnyBytesGiveACleanAnswer, (const std::string& bytes)) {
  const auto found = scan_record(bytes);
  RC_ASSERT(found.bytes <= bytes.size());
  (void)decode_frames(bytes, 3);
  (void)decompress_payload(bytes);
  (void)detail::decode_index_file(bytes);
}

}  // namespace
}  // namespace queen::qlog
