#include <gtest/gtest.h>

#include "lake_test_support.h"

namespace queen::lake {
namespace {

constexpr Codec kCodecs[] = {Codec::zstd, Codec::gzip, Codec::none, Codec::snappy};

TEST(Kind, NamesAreReadBack) {
  for (const Codec codec : kCodecs) EXPECT_EQ(parse_codec(name_of(codec)), codec);
  EXPECT_FALSE(parse_codec("lz4"));
  EXPECT_EQ(parse_format("jsonl"), Format::jsonl);
  EXPECT_EQ(parse_format("parquet"), Format::parquet);
  EXPECT_FALSE(parse_format("orc"));
}

TEST(Kind, ThereAreFiveWriters) {
  for (const Kind& kind : kKinds) EXPECT_TRUE(can_write(kind));
  EXPECT_FALSE(can_write({Format::jsonl, Codec::snappy}));
  EXPECT_FALSE(can_write({Format::parquet, Codec::gzip}));
  EXPECT_FALSE(can_write({Format::parquet, Codec::none}));
}

TEST(Kind, ExtensionsAndContentTypes) {
  EXPECT_EQ(extension({Format::jsonl, Codec::zstd}), "jsonl.zst");
  EXPECT_EQ(extension({Format::jsonl, Codec::gzip}), "jsonl.gz");
  EXPECT_EQ(extension({Format::jsonl, Codec::none}), "jsonl");
  EXPECT_EQ(extension({Format::parquet, Codec::zstd}), "parquet");
  EXPECT_EQ(extension({Format::parquet, Codec::snappy}), "parquet");
  EXPECT_EQ(content_type({}), "application/x-ndjson");
  EXPECT_EQ(content_type({Format::parquet, Codec::zstd}), "application/vnd.apache.parquet");
}

TEST(Kind, WriterStringsNameFormatCodecAndGeneration) {
  EXPECT_EQ(writer_string({Format::jsonl, Codec::zstd}, "1.2.3"), "queen-s3/1.2.3 jsonl+zstd/1");
  EXPECT_EQ(writer_string({Format::jsonl, Codec::gzip}, "1.2.3"), "queen-s3/1.2.3 jsonl+gzip/1");
  EXPECT_EQ(writer_string({Format::jsonl, Codec::none}, "1.2.3"), "queen-s3/1.2.3 jsonl/1");
  EXPECT_EQ(writer_string({Format::parquet, Codec::zstd}, "1.2.3"), "queen-s3/1.2.3 parquet+zstd/1");
  EXPECT_EQ(writer_string({Format::parquet, Codec::snappy}, "1.2.3"), "queen-s3/1.2.3 parquet+snappy/1");
}

// What holds of every writer.

Status second_push(Kind kind, const Record& first, const Record& second) {
  const auto writer = make_writer(kind, sample_origin());
  ignore(writer->push(first), "the first record of an object is always in order");
  return writer->push(second);
}

TEST(EveryWriter, GivesTheSameBytesForTheSameRecords) {
  for (const Kind& kind : kKinds)
    EXPECT_EQ(object_of(kind, sample_records()), object_of(kind, sample_records()));
}

TEST(EveryWriter, RefusesDisorderAndNamesIt) {
  const Record first{"m", 5, "t", kStamp, Payload::null, ""};
  for (const Kind& kind : kKinds) {
    for (const Record& bad :
         {Record{"a", 9, "t", kStamp + 9, Payload::null, ""}, Record{"m", 5, "t", kStamp, Payload::null, ""},
          Record{"m", 4, "t", kStamp - 1, Payload::null, ""}}) {
      const Status status = second_push(kind, first, bad);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, Errc::invalid);
      EXPECT_EQ(status.error().what.find("partition " + std::string(bad.partition) + " offset " +
                                         std::to_string(bad.offset)),
                0U);
    }
  }
}

TEST(EveryWriter, TakesANewIncarnationWhoseStampIsGreater) {
  const Record first{"m", 5, "t", kStamp, Payload::null, ""};
  for (const Kind& kind : kKinds) {
    EXPECT_TRUE(second_push(kind, first, {"m", 0, "t", kStamp + 1, Payload::null, ""}));
    EXPECT_TRUE(second_push(kind, first, {"\xC3\xA8", 0, "t", kStamp - 1, Payload::null, ""}));
  }
}

TEST(EveryWriter, IsSingleUse) {
  for (const Kind& kind : kKinds) {
    const auto writer = make_writer(kind, sample_origin());
    ASSERT_TRUE(writer->push(sample_records()[0]));
    ASSERT_TRUE(writer->finish());
    EXPECT_EQ(writer->push(sample_records()[1]).error().code, Errc::invalid);
    EXPECT_EQ(writer->finish().error().code, Errc::invalid);
    EXPECT_EQ(writer->records(), 1U);
  }
}

TEST(EveryWriter, ARefusedRecordLeavesNoTrace) {
  for (const Kind& kind : kKinds) {
    const auto writer = make_writer(kind, sample_origin());
    const auto records = sample_records();
    ASSERT_TRUE(writer->push(records[0]));
    ASSERT_FALSE(writer->push(records[0]));
    for (std::size_t i = 1; i < records.size(); ++i) ASSERT_TRUE(writer->push(records[i]));
    EXPECT_EQ(writer->finish().value(), object_of(kind, records));
  }
}

}  // namespace
}  // namespace queen::lake
