// Writes sample lakes to disk for tests/e2e/test_readers.py, which knows the same formulas: under the
// directory named, one lake for each format and codec,
// `<directory>/<format>-<codec>/tenant=…/queue=…/dt=…/hour=…/w-….<extension>`. `rides` and `a/b c` are two
// queues of three partitions and two hours, in small row groups; `steady` is one partition of 25,000
// consecutive offsets with one stamp, as the product writes it: its first pages are full.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "lake/detail/writers.h"
#include "lake/record_writer.h"
#include "sink/layout.h"

namespace {

using namespace queen;

constexpr std::int64_t kFirstHourUs = 1'794'038'400'000'000;  // 2026-11-07T08:00:00Z
constexpr std::int64_t kHourUs = 3'600'000'000;
constexpr std::uint64_t kRowsOfHour = 1250;
constexpr std::uint64_t kSteadyRows = 25'000;
constexpr lake::RowGroupLimits kSmall{500, 1 << 30};

constexpr lake::Kind kKinds[] = {{lake::Format::jsonl, lake::Codec::zstd},
                                 {lake::Format::jsonl, lake::Codec::gzip},
                                 {lake::Format::jsonl, lake::Codec::none},
                                 {lake::Format::parquet, lake::Codec::zstd},
                                 {lake::Format::parquet, lake::Codec::snappy}};

struct Row {
  std::string partition;
  std::uint64_t offset = 0;
  std::string transaction_id;
  std::int64_t ts = 0;
  std::string payload;  // empty: null
};

// Row `i` of an hour, dealt out to the three partitions in turn; a partition's offsets go on over the hours.
Row row_of(std::uint64_t hour, std::uint64_t i) {
  static const std::string kPartitions[] = {"a/b", "bike 7", "caff\xC3\xA8"};
  const std::uint64_t n = hour * kRowsOfHour + i;
  Row row{kPartitions[n % 3], n / 3, fmt::format("t-{}", n), 0, {}};
  row.ts =
      kFirstHourUs + static_cast<std::int64_t>(hour) * kHourUs + static_cast<std::int64_t>(i) * 1'000'003;
  if (n % 357 != 5)
    row.payload =
        fmt::format("{{\"n\":{},\"half\":{}.50,\"text\":\"\xC3\xA8 \\\"{}\\\"\"}}", n, n / 2, n % 7);
  return row;
}

std::vector<Row> rows_of(std::uint64_t hour) {
  std::vector<Row> rows;
  for (std::uint64_t partition = 0; partition < 3; ++partition)
    for (std::uint64_t i = (partition + 3 - hour * kRowsOfHour % 3) % 3; i < kRowsOfHour; i += 3)
      rows.push_back(row_of(hour, i));
  return rows;
}

std::vector<Row> steady_rows() {
  std::vector<Row> rows;
  for (std::uint64_t i = 0; i < kSteadyRows; ++i)
    rows.push_back({"one", 1000 + i, fmt::format("s-{}", i), kFirstHourUs + 1, fmt::format("{}", i)});
  return rows;
}

bool write_object(const std::filesystem::path& path, lake::RecordWriter& writer,
                  const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const auto kind = row.payload.empty() ? lake::Payload::null : lake::Payload::json;
    if (!writer.push({row.partition, row.offset, row.transaction_id, row.ts, kind, row.payload}))
      return false;
  }
  const auto object = writer.finish();
  if (!object) return false;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(object->data(), static_cast<std::streamsize>(object->size()));
  return file.flush().good();
}

std::unique_ptr<lake::RecordWriter> small_groups(lake::Kind kind, lake::Origin origin) {
  if (kind.format == lake::Format::jsonl) return lake::make_writer(kind, std::move(origin));
  return lake::make_parquet_writer(kind.codec, std::move(origin), kSmall);
}

bool write_lake(const std::filesystem::path& directory, lake::Kind kind) {
  const std::string root = fmt::format("{}-{}", name_of(kind.format), name_of(kind.codec));
  const std::string tenant = "00000000-0000-0000-0000-000000000001";
  const auto path_of = [&](const std::string& queue, std::uint64_t hour) {
    const std::int64_t start = kFirstHourUs + static_cast<std::int64_t>(hour) * kHourUs;
    return directory / sink::data_key({root, tenant, queue}, sink::Align::hour,
                                      {hour + 1, start, start + kHourUs}, lake::extension(kind));
  };
  for (const std::string queue : {"rides", "a/b c"}) {
    for (std::uint64_t hour = 0; hour < 2; ++hour) {
      const auto writer = small_groups(kind, {queue, tenant, "0.1.0"});
      if (!write_object(path_of(queue, hour), *writer, rows_of(hour))) return false;
    }
  }
  const auto writer = lake::make_writer(kind, {"steady", tenant, "0.1.0"});
  return write_object(path_of("steady", 0), *writer, steady_rows());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: lake_sample <directory>\n");
    return 2;
  }
  for (const lake::Kind& kind : kKinds)
    if (!write_lake(argv[1], kind)) {
      fmt::print(stderr, "lake_sample: no {} {} lake could be written\n", name_of(kind.format),
                 name_of(kind.codec));
      return 1;
    }
  return 0;
}
