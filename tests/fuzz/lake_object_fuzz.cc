// Bytes of a bucket into the reader of lake objects: the first byte chooses the extension, the rest is the
// object. The reader refuses it or gives records; records that a writer takes, in order and as text, come
// back the same out of a Parquet object of small row groups and out of JSONL.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/invariant.h"
#include "base/text.h"
#include "lake/detail/writers.h"
#include "lake/record_reader.h"

namespace {

using namespace queen;

constexpr std::string_view kKeys[] = {"w.jsonl.zst", "w.jsonl.gz", "w.jsonl", "w.parquet"};

// What is read before the end or the first error.
std::vector<lake::ReadRecord> read_all(std::string_view key, BytesView object) {
  std::vector<lake::ReadRecord> records;
  auto reader = lake::open_object(key, object);
  if (!reader) return records;
  while (true) {
    auto record = (*reader)->next();
    if (!record || !*record) return records;
    records.push_back(**std::move(record));
  }
}

bool same(const lake::ReadRecord& a, const lake::ReadRecord& b) {
  return a.partition == b.partition && a.offset == b.offset && a.transaction_id == b.transaction_id &&
         a.ts == b.ts && a.payload == b.payload;
}

lake::Record as_pushed(const lake::ReadRecord& record) {
  // JSONL shows no difference between nothing and a payload that reads `null` or is empty.
  const bool null = !record.payload || record.payload->empty() || *record.payload == "null";
  const auto kind = null ? lake::Payload::null : lake::Payload::json;
  return {record.partition, record.offset, record.transaction_id,
          record.ts,        kind,          null ? std::string_view() : std::string_view(*record.payload)};
}

void expect_back(lake::RecordWriter& writer, std::string_view key,
                 const std::vector<lake::ReadRecord>& records) {
  std::vector<lake::ReadRecord> taken;
  for (const lake::ReadRecord& record : records) {
    const lake::Record pushed = as_pushed(record);
    if (!writer.push(pushed)) continue;
    taken.push_back(record);
    if (pushed.payload_kind == lake::Payload::null) taken.back().payload.reset();
  }
  const auto object = writer.finish();
  INVARIANT(object.has_value(), "{} records give no object", taken.size());
  const auto again = read_all(key, *object);
  INVARIANT(again.size() == taken.size(), "{} records of {} come back from {}", again.size(), taken.size(),
            key);
  for (std::size_t i = 0; i < taken.size(); ++i)
    INVARIANT(same(again[i], taken[i]), "record {} of {} comes back different", i, key);
}

// JSONL writes years 0 to 9999, and a raw line end as a blank.
bool has_a_line(const lake::ReadRecord& record) {
  const bool raw_end = record.payload && record.payload->find_first_of("\r\n") != std::string::npos;
  return !raw_end && parse_iso_micros_strict(iso_micros(record.ts)) == record.ts;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const BytesView object(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto records = read_all(kKeys[data[0] % std::size(kKeys)], object);
  expect_back(*lake::make_parquet_writer(lake::Codec::zstd, {}, {3, 100}), "w.parquet", records);
  std::erase_if(records, [](const lake::ReadRecord& record) { return !has_a_line(record); });
  expect_back(*lake::make_writer({lake::Format::jsonl, lake::Codec::none}, {}), "w.jsonl", records);
  return 0;
}
