#include <fmt/format.h>

#include "parquet_test_support.h"

namespace queen::lake {
namespace {

constexpr Codec kCodecs[] = {Codec::zstd, Codec::snappy};

Bytes sample_object(Codec codec) {
  return object_of({Format::parquet, codec}, sample_records());
}

// Records of one partition, with the payloads given.
std::vector<Record> records_of(const std::vector<std::string>& payloads) {
  std::vector<Record> records;
  for (std::size_t i = 0; i < payloads.size(); ++i)
    records.push_back({"p", i, "id", kStamp, Payload::json, payloads[i]});
  return records;
}

std::vector<Record> many_records(std::size_t count) {
  return records_of(std::vector<std::string>(count, "1"));
}

std::vector<std::int64_t> rows_of_groups(const wire::Footer& footer) {
  std::vector<std::int64_t> rows;
  for (const wire::RowGroup& group : footer.row_groups) rows.push_back(group.rows);
  return rows;
}

// The bytes themselves: a change here needs a higher kWriterGeneration and new files.
TEST(ParquetWriter, EncodesExactlyAsGolden) {
  ASSERT_EQ(kWriterGeneration, 1);
  EXPECT_EQ(hex_lower(sample_object(Codec::zstd)), hex_lower(golden("parquet-zstd-v1.hex")));
  EXPECT_EQ(hex_lower(sample_object(Codec::snappy)), hex_lower(golden("parquet-snappy-v1.hex")));
}

TEST(ParquetFooter, SchemaIsOurs) {
  const auto schema = footer_of(sample_object(Codec::zstd)).schema;
  ASSERT_EQ(schema.size(), 6U);
  EXPECT_EQ(schema[0].name, "queen_record");
  EXPECT_EQ(schema[0].children, 5);
  EXPECT_FALSE(schema[0].__isset.type || schema[0].__isset.repetition);
  struct Expected {
    const char* name;
    int type, repetition, converted;  // -1: none
  };
  const Expected expected[] = {{"partition", 6, 0, 0},
                               {"offset", 2, 0, -1},
                               {"transaction_id", 6, 0, 0},
                               {"ts", 2, 0, 10},
                               {"payload", 6, 1, 0}};
  for (std::size_t i = 0; i < 5; ++i) {
    const wire::SchemaElement& element = schema[i + 1];
    EXPECT_EQ(element.name, expected[i].name);
    EXPECT_EQ(element.type, expected[i].type);
    EXPECT_EQ(element.repetition, expected[i].repetition);
    EXPECT_EQ(element.__isset.converted_type ? element.converted_type : -1, expected[i].converted);
    EXPECT_EQ(element.logical_type.__isset.text, expected[i].converted == 0);
  }
  EXPECT_TRUE(schema[4].logical_type.timestamp.adjusted_to_utc);
  EXPECT_TRUE(schema[4].logical_type.timestamp.unit.__isset.micros);
}

TEST(ParquetFooter, SaysVersionWriterOrderAndOrigin) {
  const wire::Footer footer = footer_of(sample_object(Codec::snappy));
  EXPECT_EQ(footer.version, 1);
  EXPECT_EQ(footer.rows, 4);
  EXPECT_EQ(footer.created_by, "queen-s3 version 1.2.3 (build 1)");
  ASSERT_EQ(footer.column_orders.size(), 5U);
  for (const wire::ColumnOrder& order : footer.column_orders) EXPECT_TRUE(order.__isset.by_type);
  ASSERT_EQ(footer.key_values.size(), 3U);
  EXPECT_EQ(footer.key_values[0].key + "=" + footer.key_values[0].value, "queen.envelope=1");
  EXPECT_EQ(footer.key_values[1].key + "=" + footer.key_values[1].value, "queen.queue=rides");
  EXPECT_EQ(footer.key_values[2].key + "=" + footer.key_values[2].value,
            "queen.tenant=00000000-0000-0000-0000-000000000001");
}

void expect_chunk_is_told_as_it_stands(const Bytes& object, const wire::ColumnMeta& meta, std::int64_t at) {
  const std::vector<Page> pages = pages_of(object, meta);
  std::int64_t plain = 0;
  std::int64_t values = 0;
  std::map<std::pair<int, int>, int> counts;
  for (const Page& page : pages) {
    plain += static_cast<std::int64_t>(page.header_bytes + page.facts.plain_bytes);
    if (page.facts.type == PageType::data) values += page.facts.values;
    ++counts[{static_cast<int>(page.facts.type), static_cast<int>(page.facts.encoding)}];
  }
  const bool dictionary = pages.front().facts.type == PageType::dictionary;
  EXPECT_EQ(meta.__isset.dictionary_page_at, dictionary);
  if (dictionary) {
    EXPECT_EQ(meta.dictionary_page_at, at);
  }
  const std::int64_t before =
      dictionary ? static_cast<std::int64_t>(pages[0].header_bytes + pages[0].facts.stored_bytes) : 0;
  EXPECT_EQ(meta.data_page_at, at + before);
  EXPECT_EQ(meta.plain_bytes, plain);
  EXPECT_EQ(meta.values, values);
  std::map<std::pair<int, int>, int> told;
  for (const wire::EncodingStats& stats : meta.encoding_stats)
    told[{stats.page_type, stats.encoding}] = stats.count;
  EXPECT_EQ(told, counts);
}

// Offsets, sizes with headers, counts of pages: all of it against the pages themselves, and nothing between
// them.
TEST(ParquetFooter, TellsThePagesAsTheyStand) {
  for (const Codec codec : kCodecs) {
    const Bytes object = parquet_of(codec, {1000, kRowGroupBytesMax}, many_records(2500));
    std::int64_t at = 4;
    std::int16_t ordinal = 0;
    for (const wire::RowGroup& group : footer_of(object).row_groups) {
      EXPECT_EQ(group.file_offset, at);
      EXPECT_EQ(group.ordinal, ordinal++);
      std::int64_t plain = 0;
      std::int64_t stored = 0;
      for (const wire::ColumnChunk& chunk : group.columns) {
        EXPECT_EQ(chunk.file_offset, 0);
        EXPECT_EQ(chunk.meta.codec, codec == Codec::zstd ? 6 : 1);
        expect_chunk_is_told_as_it_stands(object, chunk.meta, at);
        plain += chunk.meta.plain_bytes;
        stored += chunk.meta.stored_bytes;
        at += chunk.meta.stored_bytes;
      }
      EXPECT_EQ(group.plain_bytes, plain);
      EXPECT_EQ(group.stored_bytes, stored);
    }
  }
}

TEST(ParquetFooter, EncodingsAreThoseOfEachColumn) {
  const wire::Footer footer = footer_of(sample_object(Codec::zstd));
  const wire::RowGroup& group = footer.row_groups.at(0);
  EXPECT_EQ(meta_of(group, Column::partition).encodings, (std::vector<int>{0, 3, 8}));
  EXPECT_EQ(meta_of(group, Column::offset).encodings, (std::vector<int>{3, 5}));
  EXPECT_EQ(meta_of(group, Column::transaction_id).encodings, (std::vector<int>{0, 3}));
  EXPECT_EQ(meta_of(group, Column::ts).encodings, (std::vector<int>{3, 5}));
  EXPECT_EQ(meta_of(group, Column::payload).encodings, (std::vector<int>{0, 3}));
}

TEST(ParquetFooter, StatisticsOfEachRowGroup) {
  const std::vector<Record> records = {{"a", 1, "x", kStamp, Payload::null, ""},
                                       {"a", 2, "y", kStamp + 1, Payload::json, "7"},
                                       {"b", 0, "z", kStamp, Payload::null, ""}};
  const wire::Footer footer = footer_of(parquet_of(Codec::zstd, {2, kRowGroupBytesMax}, records));
  ASSERT_EQ(footer.row_groups.size(), 2U);
  const auto& partition = meta_of(footer.row_groups[0], Column::partition).statistics;
  EXPECT_EQ(partition.min_value + partition.max_value, "aa");
  EXPECT_TRUE(partition.__isset.min_is_exact && partition.min_is_exact);
  EXPECT_TRUE(partition.__isset.max_is_exact && partition.max_is_exact);
  const auto& ts = meta_of(footer.row_groups[0], Column::ts).statistics;
  EXPECT_EQ(load_le<std::int64_t>(ts.min_value.data()), kStamp);
  EXPECT_EQ(load_le<std::int64_t>(ts.max_value.data()), kStamp + 1);
  EXPECT_EQ(meta_of(footer.row_groups[0], Column::payload).statistics.null_count, 1);
  // All null: a count and no bounds.
  const auto& nulls = meta_of(footer.row_groups[1], Column::payload).statistics;
  EXPECT_EQ(nulls.null_count, 1);
  EXPECT_FALSE(nulls.__isset.min_value || nulls.__isset.max_value);
  EXPECT_FALSE(nulls.__isset.min_is_exact || nulls.__isset.max_is_exact);
}

TEST(ParquetWriter, ClosesRowGroupsByRowsAndLeavesNoEmptyOne) {
  const RowGroupLimits limits{1000, kRowGroupBytesMax};
  EXPECT_EQ(rows_of_groups(footer_of(parquet_of(Codec::zstd, limits, many_records(2500)))),
            (std::vector<std::int64_t>{1000, 1000, 500}));
  EXPECT_EQ(rows_of_groups(footer_of(parquet_of(Codec::zstd, limits, many_records(2000)))),
            (std::vector<std::int64_t>{1000, 1000}));
}

TEST(ParquetWriter, TheProductsRowGroupHas100000Rows) {
  EXPECT_EQ(rows_of_groups(footer_of(object_of({Format::parquet, Codec::snappy}, many_records(100'001)))),
            (std::vector<std::int64_t>{100'000, 1}));
}

// A record above the limit is a row group by itself; the record behind it does not join it.
TEST(ParquetWriter, ClosesRowGroupsByBytes) {
  const std::string small(40, '1');
  const std::string big(200, '1');
  const Bytes object = parquet_of(Codec::zstd, {1000, 150}, records_of({small, big, small, small, small}));
  EXPECT_EQ(rows_of_groups(footer_of(object)), (std::vector<std::int64_t>{1, 1, 2, 1}));
}

TEST(ParquetWriter, PagesEndAt20000Rows) {
  const Bytes object = object_of({Format::parquet, Codec::zstd}, many_records(45'000));
  const wire::Footer footer = footer_of(object);
  for (const Column column : kAllColumns)
    EXPECT_EQ(rows_of_pages(pages_of(object, meta_of(footer.row_groups.at(0), column))),
              (std::vector<std::uint32_t>{20'000, 20'000, 5'000}));
}

// HD-22: looked at before each value. The second would make the page cross 1 MiB, the third is above it
// alone.
TEST(ParquetWriter, PagesEndBeforeTheyCrossOneMebibyte) {
  const std::string half(600'000, '1');
  const std::string fits((1 << 20) - 4, '2');
  const std::string above(3 << 20, '3');
  const Bytes object =
      object_of({Format::parquet, Codec::zstd}, records_of({half, half, above, "4", "5", fits, "6"}));
  const wire::Footer footer = footer_of(object);
  EXPECT_EQ(rows_of_pages(pages_of(object, meta_of(footer.row_groups.at(0), Column::payload))),
            (std::vector<std::uint32_t>{1, 1, 1, 2, 1, 1}));
}

TEST(ParquetWriter, ADictionaryAboveOneMebibyteGoesOnPlain) {
  std::vector<std::string> names;
  std::vector<Record> records;
  for (char c = 'a'; c < 'g'; ++c) names.push_back(std::string(300'000, c));
  for (const std::string& name : names) records.push_back({name, 0, "id", kStamp, Payload::null, ""});
  const Bytes object = object_of({Format::parquet, Codec::zstd}, records);
  const wire::Footer footer = footer_of(object);
  const wire::ColumnMeta& meta = meta_of(footer.row_groups.at(0), Column::partition);
  const std::vector<Page> pages = pages_of(object, meta);
  ASSERT_EQ(pages.size(), 3U);
  EXPECT_EQ(pages[0].facts.values, 3U);
  EXPECT_EQ(pages[1].facts.encoding, Encoding::rle_dictionary);
  EXPECT_EQ(pages[2].facts.encoding, Encoding::plain);
  EXPECT_EQ(rows_of_pages(pages), (std::vector<std::uint32_t>{3, 3}));
  expect_chunk_is_told_as_it_stands(object, meta, 4);
  EXPECT_EQ(meta.statistics.max_value, std::string(63, 'f') + "g");
}

TEST(ParquetWriter, ANameAboveTheDictionaryLimitHasNoDictionary) {
  const std::string name(2 << 20, 'n');
  const Bytes object =
      object_of({Format::parquet, Codec::zstd}, {{name, 0, "id", kStamp, Payload::null, ""}});
  const wire::Footer footer = footer_of(object);
  const wire::ColumnMeta& meta = meta_of(footer.row_groups.at(0), Column::partition);
  EXPECT_FALSE(meta.__isset.dictionary_page_at);
  EXPECT_EQ(meta.encodings, (std::vector<int>{0, 3}));
}

TEST(ParquetWriter, EmptyObjectIsValidAndNamesNoQueue) {
  for (const Codec codec : kCodecs) {
    const wire::Footer footer = footer_of(object_of({Format::parquet, codec}, {}));
    EXPECT_EQ(footer.rows, 0);
    EXPECT_TRUE(footer.row_groups.empty());
    ASSERT_EQ(footer.key_values.size(), 1U);
    EXPECT_EQ(footer.key_values[0].key, "queen.envelope");
  }
}

TEST(ParquetWriter, TwoQueuesDifferByTheFootersStringOnly) {
  Origin other = sample_origin();
  other.queue = "RIDES";
  Bytes a = filled(*make_writer({Format::parquet, Codec::zstd}, sample_origin()), sample_records());
  const Bytes b = filled(*make_writer({Format::parquet, Codec::zstd}, other), sample_records());
  ASSERT_NE(a, b);
  const std::size_t at = a.find("rides");
  ASSERT_NE(at, Bytes::npos);
  EXPECT_EQ(a.replace(at, 5, "RIDES"), b);
}

TEST(ParquetWriter, ADefinitionLevelForEachPayload) {
  const std::vector<Record> records = {{"p", 0, "i", kStamp, Payload::json, "1"},
                                       {"p", 1, "i", kStamp, Payload::null, ""},
                                       {"p", 2, "i", kStamp, Payload::json, ""},
                                       {"p", 3, "i", kStamp, Payload::raw_bytes, "\"\xFF"}};
  const Bytes object = object_of({Format::parquet, Codec::zstd}, records);
  const wire::Footer footer = footer_of(object);
  const auto pages = pages_of(object, meta_of(footer.row_groups.at(0), Column::payload));
  ASSERT_EQ(pages.size(), 1U);
  EXPECT_EQ(hex_lower(pages[0].plain),
            "02000000"                // two bytes of levels
            "0309"                    // one group of eight: 1 0 0 1, then zeros
            "0100000031"              // 1
            "07000000225c22efbfbd22"  // bytes that are no JSON, as a JSON string
  );
}

TEST(ParquetWriter, RefusesAnOffsetThatTheColumnCannotHold) {
  const auto writer = make_writer({Format::parquet, Codec::zstd}, sample_origin());
  const Status status = writer->push({"p", 1ULL << 63, "t", kStamp, Payload::null, ""});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().what.find("partition p offset 9223372036854775808"), 0U);
  EXPECT_TRUE(writer->push({"p", (1ULL << 63) - 1, "t", kStamp, Payload::null, ""}));
}

TEST(ParquetWriter, JsonOf200BytesCompressesBelowHalf) {
  std::vector<std::string> payloads;
  for (std::uint64_t i = 0; i < 100'000; ++i)
    payloads.push_back(fmt::format(
        R"({{"trip":"{:032x}","n":{},"km":{}.5,"from":"station-{}","to":"station-{}",)"
        R"("rider":{{"id":{},"plan":"monthly"}},"events":[{},{}],"note":"a ride in the city"}})",
        i * 0x9E37'79B9'7F4A'7C15, i, i % 97, i % 211, i % 389, i * 7919 % 1'000'003, i % 13, i % 17));
  const Bytes object = object_of({Format::parquet, Codec::zstd}, records_of(payloads));
  std::size_t bytes = 0;
  for (const std::string& payload : payloads) bytes += payload.size();
  EXPECT_GT(bytes, 18'000'000U);
  EXPECT_LT(object.size(), bytes / 2);
}

}  // namespace
}  // namespace queen::lake
