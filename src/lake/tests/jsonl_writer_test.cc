#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "lake/detail/zstd_parameters.h"
#include "lake_test_support.h"

namespace queen::lake {
namespace {

constexpr Codec kCodecs[] = {Codec::zstd, Codec::gzip, Codec::none};

TEST(JsonlWriter, WritesFiveFieldsInOrderOneLineEach) {
  EXPECT_EQ(object_of(Codec::none, sample_records()), sample_text());
}

TEST(JsonlWriter, EveryCodecHoldsTheSameText) {
  for (const Codec codec : kCodecs)
    EXPECT_EQ(decoded(codec, object_of(codec, sample_records())), sample_text());
}

// `text`, cut behind the first line end at or above 4 MiB, through the library with its size announced.
Bytes announced_frame(BytesView text) {
  const auto context = make_zstd_context().value();
  ZSTD_CCtx_setPledgedSrcSize(context.get(), text.size());
  Bytes out(ZSTD_compressBound(text.size()) + (1 << 20), '\0');
  std::size_t written = 0;
  while (true) {
    const std::size_t line_end = text.find('\n', std::min<std::size_t>(text.size(), (4 << 20) - 1));
    const bool last = line_end == BytesView::npos || line_end + 1 == text.size();
    const BytesView piece = last ? text : text.substr(0, line_end + 1);
    text.remove_prefix(piece.size());
    ZSTD_inBuffer in{piece.data(), piece.size(), 0};
    for (std::size_t left = 1; last ? left != 0 : in.pos < in.size;) {
      ZSTD_outBuffer to{out.data() + written, 1 << 20, 0};
      left = ZSTD_compressStream2(context.get(), &to, &in, last ? ZSTD_e_end : ZSTD_e_continue);
      if (ZSTD_isError(left)) return ZSTD_getErrorName(left);
      written += to.pos;
    }
    if (last) return out.substr(0, written);
  }
}

// The bytes themselves: a change here needs a higher kWriterGeneration and new files.
TEST(JsonlWriter, EncodesExactlyAsGolden) {
  ASSERT_EQ(kWriterGeneration, 1);
  EXPECT_EQ(hex_lower(object_of(Codec::zstd, sample_records())), hex_lower(golden("jsonl-zstd-v1.hex")));
  EXPECT_EQ(hex_lower(object_of(Codec::gzip, sample_records())), hex_lower(golden("jsonl-gzip-v1.hex")));
  EXPECT_EQ(hex_lower(object_of(Codec::none, sample_records())), hex_lower(golden("jsonl-none-v1.hex")));
}

TEST(JsonlWriter, ZstdIsOneFrameWithItsContentSize) {
  const Bytes object = object_of(Codec::zstd, sample_records());
  EXPECT_EQ(ZSTD_getFrameContentSize(object.data(), object.size()), sample_text().size());
  EXPECT_EQ(ZSTD_findFrameCompressedSize(object.data(), object.size()), object.size());
  EXPECT_EQ(ZSTD_getDictID_fromFrame(object.data(), object.size()), 0U);
}

// The frame of a long text is begun before its size is known. It is, byte for byte, the one that the library
// writes for the same pieces when it is told the size first.
TEST(JsonlWriter, ALongTextHasTheFrameOfAnAnnouncedSize) {
  std::vector<std::string> payloads;
  std::vector<Record> records;
  for (int i = 0; i < 40'000; ++i)
    payloads.push_back("{\"n\":" + std::to_string(i * 7919 % 100'003) + ",\"pad\":\"" +
                       std::string(static_cast<std::size_t>(i % 200), 'x') + "\"}");
  for (std::size_t i = 0; i < payloads.size(); ++i)
    records.push_back({"p", i, "id", kStamp, Payload::json, payloads[i]});
  const Bytes text = object_of(Codec::none, records);
  ASSERT_GT(text.size(), 8U << 20);
  EXPECT_EQ(object_of(Codec::zstd, records), announced_frame(text));
}

TEST(JsonlWriter, GzipHeaderNamesNoTimeNoNameNoSystem) {
  EXPECT_EQ(hex_lower(object_of(Codec::gzip, sample_records()).substr(0, 10)), "1f8b08000000000000ff");
}

TEST(JsonlWriter, EmptyObjectIsValidInEveryCodec) {
  for (const Codec codec : kCodecs) EXPECT_EQ(decoded(codec, object_of(codec, {})), "");
  const Bytes zstd = object_of(Codec::zstd, {});
  EXPECT_EQ(ZSTD_getFrameContentSize(zstd.data(), zstd.size()), 0U);
}

TEST(JsonlWriter, SameRecordsGiveSameBytesFromTwoWriters) {
  std::vector<std::string> payloads;
  std::vector<Record> records;
  for (int i = 0; i < 60'000; ++i)
    payloads.push_back("{\"n\":" + std::to_string(i * 7919 % 100'003) + ",\"pad\":\"" +
                       std::string(100, 'x') + "\"}");
  for (std::size_t i = 0; i < payloads.size(); ++i)
    records.push_back({"p", i, "id", kStamp, Payload::json, payloads[i]});
  for (const Codec codec : kCodecs) {
    const Bytes object = object_of(codec, records);
    EXPECT_EQ(object, object_of(codec, records));
    EXPECT_EQ(decoded(codec, object, 32 << 20).size(), object_of(Codec::none, records).size());
  }
  EXPECT_GT(object_of(Codec::none, records).size(), 8U << 20);  // several pieces
}

TEST(JsonlWriter, ALargeTextSurvivesItsPieces) {
  const std::string big(9 << 20, 'z');
  const std::string payload = '"' + big + '"';
  const std::vector<Record> records = {{"a", 1, "t", kStamp, Payload::json, payload},
                                       {"a", 2, "t", kStamp, Payload::json, "1"},
                                       {"b", 0, "t", kStamp, Payload::json, payload}};
  const Bytes text = object_of(Codec::none, records);
  EXPECT_EQ(
      text.size(),
      2 * payload.size() + 1 +
          3 * (sizeof(
                   R"({"partition":"a","offset":1,"transactionId":"t","ts":"2026-11-07T09:04:50.991204Z","payload":})") -
               1 + 1));
  for (const Codec codec : {Codec::zstd, Codec::gzip})
    EXPECT_EQ(decoded(codec, object_of(codec, records), 32 << 20), text);
}

TEST(JsonlWriter, PayloadStandsByteForByte) {
  for (const std::string_view payload : {"42.00", "123456789012345678901234567890", R"({"b":1, "a" : [ ]})",
                                         R"("a\n\r\t\u00e8")", "-0.0E+7"}) {
    const Bytes text = object_of(Codec::none, {{"p", 0, "t", kStamp, Payload::json, payload}});
    EXPECT_NE(text.find("\"payload\":" + std::string(payload) + "}\n"), Bytes::npos) << payload;
  }
}

TEST(JsonlWriter, EmptyJsonPayloadIsNull) {
  const Bytes text = object_of(Codec::none, {{"p", 0, "t", kStamp, Payload::json, ""}});
  EXPECT_NE(text.find("\"payload\":null}\n"), Bytes::npos);
}

TEST(JsonlWriter, EachRawLineEndBecomesOneBlank) {
  const Bytes text = object_of(Codec::none, {{"p", 0, "t", kStamp, Payload::json, "\n[1,\r\n\r\n2]\r"}});
  EXPECT_NE(text.find("\"payload\": [1,    2] }\n"), Bytes::npos) << text;
}

RC_GTEST_PROP(JsonlWriterProperty, AnyRecordStaysOnOneLine,
              (const std::string& partition, const std::string& id, const std::string& payload, bool raw)) {
  const auto kind = raw ? Payload::raw_bytes : Payload::json;
  const Bytes text = object_of(Codec::none, {{partition, 0, id, kStamp, kind, payload}});
  RC_ASSERT(text.find('\n') == text.size() - 1);
  RC_ASSERT(text.find('\r') == Bytes::npos);
}

// Escapes equal those of a reference JSON encoder (Python's json.dumps with ensure_ascii off).
TEST(JsonlWriter, EscapesEveryControlAsTheReferenceDoes) {
  constexpr std::string_view kShort[32] = {"", "",    "",    "",    "", "",    "",
                                           "", "\\b", "\\t", "\\n", "", "\\f", "\\r"};
  for (int c = 0; c < 0x20; ++c) {
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
    const std::string expected = kShort[c].empty() ? escape : std::string(kShort[c]);
    const std::string name(1, static_cast<char>(c));
    const Bytes text = object_of(Codec::none, {{name, 0, name, kStamp, Payload::null, ""}});
    EXPECT_EQ(text.find("{\"partition\":\"" + expected + "\","), 0U) << c;
    EXPECT_NE(text.find("\"transactionId\":\"" + expected + "\","), Bytes::npos) << c;
  }
}

Status second_push(const Record& first, const Record& second) {
  const auto writer = make_writer({}, {});
  ignore(writer->push(first), "the first record of an object is always in order");
  return writer->push(second);
}

TEST(JsonlWriter, RefusesDisorderAndNamesIt) {
  const Record first{"m", 5, "t", kStamp, Payload::null, ""};
  for (const Record& bad :
       {Record{"a", 9, "t", kStamp + 9, Payload::null, ""}, Record{"m", 5, "t", kStamp, Payload::null, ""},
        Record{"m", 4, "t", kStamp, Payload::null, ""}, Record{"m", 4, "t", kStamp - 1, Payload::null, ""}}) {
    const Status status = second_push(first, bad);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::invalid);
    EXPECT_NE(status.error().what.find("partition " + std::string(bad.partition) + " offset " +
                                       std::to_string(bad.offset)),
              std::string::npos);
  }
}

TEST(JsonlWriter, TakesANewIncarnationWhoseStampIsGreater) {
  const Record first{"m", 5, "t", kStamp, Payload::null, ""};
  EXPECT_TRUE(second_push(first, {"m", 0, "t", kStamp + 1, Payload::null, ""}));
  EXPECT_TRUE(second_push(first, {"m", 6, "t", kStamp - 1, Payload::null, ""}));
  EXPECT_TRUE(second_push(first, {"n", 0, "t", kStamp - 1, Payload::null, ""}));
}

// Partitions compare as bytes, not as signed characters.
TEST(JsonlWriter, OrdersPartitionsAsUnsignedBytes) {
  EXPECT_TRUE(
      second_push({"z", 0, "t", kStamp, Payload::null, ""}, {"\xC3\xA8", 0, "t", kStamp, Payload::null, ""}));
}

TEST(JsonlWriter, IsSingleUse) {
  const auto writer = make_writer({}, {});
  ASSERT_TRUE(writer->push(sample_records()[0]));
  ASSERT_TRUE(writer->finish());
  EXPECT_EQ(writer->push(sample_records()[1]).error().code, Errc::invalid);
  EXPECT_EQ(writer->finish().error().code, Errc::invalid);
  EXPECT_EQ(writer->records(), 1U);
}

TEST(JsonlWriter, ARefusedRecordLeavesNoTrace) {
  const auto writer = make_writer({Format::jsonl, Codec::none}, {});
  const auto records = sample_records();
  ASSERT_TRUE(writer->push(records[0]));
  ASSERT_FALSE(writer->push(records[0]));
  for (std::size_t i = 1; i < records.size(); ++i) ASSERT_TRUE(writer->push(records[i]));
  EXPECT_EQ(writer->finish().value(), sample_text());
}

}  // namespace
}  // namespace queen::lake
