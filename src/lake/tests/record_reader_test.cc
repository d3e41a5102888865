#include "lake/record_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "lake/detail/writers.h"
#include "lake_test_support.h"

namespace queen::lake {
namespace {

std::string key_of(Kind kind) {
  return fmt::format("queen/w-1.{}", extension(kind));
}

struct Read {
  std::vector<ReadRecord> records;
  std::optional<Error> error;
};
Read read_all(std::string_view key, BytesView object) {
  Read read;
  auto reader = open_object(key, object);
  if (!reader) return {{}, reader.error()};
  while (true) {
    auto record = (*reader)->next();
    if (!record) {
      EXPECT_EQ((*reader)->next().error().what, record.error().what);  // repeated by every later call
      return {std::move(read.records), record.error()};
    }
    if (!*record) return read;
    read.records.push_back(**std::move(record));
  }
}

std::string shown(const ReadRecord& record) {
  return fmt::format("{}|{}|{}|{}|{}", record.partition, record.offset, record.transaction_id, record.ts,
                     record.payload.value_or("(null)"));
}
std::vector<std::string> shown(const std::vector<ReadRecord>& records) {
  std::vector<std::string> lines;
  for (const ReadRecord& record : records) lines.push_back(shown(record));
  return lines;
}

TEST(RecordReader, KnowsFormatsByTheirExtension) {
  for (const Kind& kind : kKinds) EXPECT_EQ(format_of_key(key_of(kind)), kind.format);
  EXPECT_FALSE(format_of_key("queen/_queen/windows/0000000001.json"));
  EXPECT_FALSE(format_of_key("parquet"));
  EXPECT_EQ(open_object("w.json", "").error().code, Errc::invalid);
}

// JSONL has raw line ends as blanks, Parquet has them as they were pushed.
TEST(RecordReader, ReadsWhatEveryWriterWrites) {
  for (const Kind& kind : kKinds) {
    const Bytes object = object_of(kind, sample_records());
    const Read read = read_all(key_of(kind), object);
    EXPECT_FALSE(read.error) << read.error->what;
    const std::string payload = kind.format == Format::parquet
                                    ? std::string(sample_records()[1].payload)
                                    : R"({    "km": 123456789012345678901234567890,   "t": "a\nb" })";
    EXPECT_EQ(shown(read.records),
              (std::vector<std::string>{
                  fmt::format("bike-7|911|trip-44.a|{}|{}", kStamp, R"({"km":3.10})"),
                  fmt::format("bike-7|912|trip-44.b|{}|{}", kStamp, payload),
                  fmt::format("caff\xC3\xA8 \"1\"|0|t\\\x01\x7F/|{}|(null)", kStamp + 1),
                  fmt::format("caff\xC3\xA8 \"1\"|1|sealed|{}|\"a\xEF\xBF\xBD\\\"b\\n\"", kStamp + 1)}));
  }
}

TEST(RecordReader, AnEmptyObjectHasNoRecord) {
  for (const Kind& kind : kKinds) {
    const Bytes object = object_of(kind, {});
    const Read read = read_all(key_of(kind), object);
    EXPECT_FALSE(read.error);
    EXPECT_TRUE(read.records.empty());
  }
}

// Several row groups, pages and blocks; values above a page's limit; a partition made again.
TEST(RecordReader, ReadsLargeObjects) {
  const std::string big = '"' + std::string(3 << 20, 'z') + '"';
  std::vector<Record> records = {{"a", 0, "t", kStamp, Payload::json, big},
                                 {"a", 1, "t", kStamp, Payload::null, ""},
                                 {"a", 0, "t", kStamp + 1, Payload::json, big}};
  for (std::uint64_t i = 0; i < 120'000; ++i)
    records.push_back({"b", 7 * i, "id", kStamp + 2, Payload::json, "[]"});
  for (const Kind& kind : kKinds) {
    const Bytes object = object_of(kind, records);
    const Read read = read_all(key_of(kind), object);
    ASSERT_FALSE(read.error) << read.error->what;
    ASSERT_EQ(read.records.size(), records.size());
    EXPECT_EQ(read.records[2].payload, big);
    EXPECT_EQ(shown(read.records.back()), fmt::format("b|{}|id|{}|[]", 7 * 119'999, kStamp + 2));
  }
}

struct Made {
  std::vector<std::string> partitions, ids, payloads;
  std::vector<Record> records;
};

// Records in order with names, ids and payloads of any bytes, which are text; some payloads null.
Made any_records() {
  const auto text = rc::gen::map(rc::gen::arbitrary<std::string>(),
                                 [](const std::string& raw) { return to_valid_utf8(raw); });
  Made made;
  made.partitions = *rc::gen::container<std::vector<std::string>>(text);
  std::sort(made.partitions.begin(), made.partitions.end());
  const auto count = made.partitions.size();
  made.ids = *rc::gen::container<std::vector<std::string>>(count, text);
  made.payloads = *rc::gen::container<std::vector<std::string>>(count, text);
  std::int64_t ts = kStamp;
  for (std::size_t i = 0; i < count; ++i) {
    ts += *rc::gen::inRange(0, 3);
    const auto kind = *rc::gen::element(Payload::null, Payload::raw_bytes);
    made.records.push_back({made.partitions[i], 10 + i, made.ids[i], ts, kind, made.payloads[i]});
  }
  return made;
}

RC_GTEST_PROP(RecordReaderProperty, AnyRecordsComeBack, ()) {
  const Made made = any_records();
  std::vector<std::string> expected;
  for (const Record& record : made.records) {
    const std::string payload = record.payload_kind == Payload::null ? "(null)" : json_string(record.payload);
    expected.push_back(fmt::format("{}|{}|{}|{}|{}", record.partition, record.offset, record.transaction_id,
                                   record.ts, payload));
  }
  for (const Kind& kind : kKinds)
    RC_ASSERT(shown(read_all(key_of(kind), object_of(kind, made.records)).records) == expected);
  const auto rows = *rc::gen::inRange<std::uint64_t>(1, 10);
  const Bytes object =
      filled(*make_parquet_writer(Codec::snappy, sample_origin(), {rows, 200}), made.records);
  RC_ASSERT(shown(read_all("x.parquet", object).records) == expected);
}

// A text without codec that ends behind a line is a whole one.
TEST(RecordReader, RefusesEveryTruncation) {
  for (const Kind& kind : kKinds) {
    const Bytes object = object_of(kind, sample_records());
    for (std::size_t size = 0; size < object.size(); ++size) {
      const BytesView cut = BytesView(object).substr(0, size);
      if (kind.codec == Codec::none && (cut.empty() || cut.back() == '\n')) continue;
      const Read read = read_all(key_of(kind), cut);
      ASSERT_TRUE(read.error) << extension(kind) << " cut at " << size;
      EXPECT_EQ(read.error->code, Errc::corrupt);
    }
  }
}

TEST(RecordReader, RefusesBytesBehindTheEnd) {
  for (const Kind& kind : kKinds) {
    const auto read = read_all(key_of(kind), object_of(kind, sample_records()) + "x");
    ASSERT_TRUE(read.error) << extension(kind);
    EXPECT_EQ(read.error->code, Errc::corrupt);
  }
}

// Whatever is damaged: an error or other records, never more.
TEST(RecordReader, SurvivesEveryDamagedByte) {
  for (const Kind& kind : kKinds) {
    const Bytes object = object_of(kind, sample_records());
    std::size_t refused = 0;
    for (std::size_t at = 0; at < object.size(); ++at) {
      Bytes bad = object;
      bad[at] = static_cast<char>(bad[at] ^ 0x55);
      const Read read = read_all(key_of(kind), bad);
      EXPECT_LE(read.records.size(), 4U);
      if (read.error) ++refused;
    }
    EXPECT_GT(refused, 0U);
  }
}

// A frame of a few bytes that holds more than a page of several values may.
TEST(RecordReader, DoesNotInflateAPagePastItsLimit) {
  std::vector<std::string> payloads(2, '"' + std::string(2 << 20, 'z') + '"');
  const std::vector<Record> records = {{"a", 0, "t", kStamp, Payload::json, payloads[0]}};
  Bytes object = object_of({Format::parquet, Codec::snappy}, records);
  ASSERT_FALSE(read_all("x.parquet", object).error);
  // The payload page says one value; with two in a page of this size it is none of ours.
  const auto expected = std::string("\x2C\x15\x02", 3);  // data page header: values = 1
  ASSERT_NE(object.rfind(expected), Bytes::npos);
  object[object.rfind(expected) + 2] = '\x04';
  EXPECT_EQ(read_all("x.parquet", object).error->code, Errc::corrupt);
}

TEST(RecordReader, TakesNoLineThatOurWriterDoesNotWrite) {
  const std::string good =
      R"({"partition":"p","offset":1,"transactionId":"t","ts":"2026-11-07T09:04:50.991204Z","payload":1})";
  ASSERT_FALSE(read_all("x.jsonl", good + "\n").error);
  const std::pair<std::string, std::string> changes[] = {
      {"\"p\"", "\"\\u0041\""},
      {"\"p\"", "\"\\x\""},
      {"\"p\"", "p"},
      {":1,", ":01,"},
      {":1,", ":-1,"},
      {":1,", ":1.0,"},
      {":1,", ":99999999999999999999,"},
      {".991204Z", "Z"},
      {"11-07", "13-07"},
      {"payload\":1}", "payload\":}"},
      {"payload", "Payload"},
      {"{\"part", " {\"part"},
      {":1}", ":1"},
  };
  for (const auto& [from, to] : changes) {
    std::string line = good;
    line.replace(line.find(from), from.size(), to);
    const Bytes object = line + "\n";
    EXPECT_TRUE(read_all("x.jsonl", object).error) << line;
  }
}

}  // namespace
}  // namespace queen::lake
