// The lake's encoders alone, beside the codec that they use, by the CPU time of this one thread.
//   lake_bench FORMAT CODEC RECORDS ROUNDS [TEXT_FILE]
// The codec's own rate is one call of ZSTD_compress, level 3, for the text that the JSONL writer makes of the
// same records. Writer and codec take turns, the best round of each counts. That text goes to TEXT_FILE when
// one is named. One JSON line on stdout.
#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "lake/record_writer.h"

namespace {

using namespace queen;

constexpr std::size_t kPartitions = 50;
constexpr std::size_t kRecordsPerPush = 10;
constexpr std::size_t kPayloadBytes = 256;

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "lake_bench: {}\n", what);
  std::exit(1);
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// What a device says: names that repeat, numbers that do not, 256 bytes of JSON (bench/sink.py makes the
// same).
std::string payload_of(std::mt19937_64& random) {
  std::string out = fmt::format(
      R"({{"device":"sensor-{:05}","session":"{:016x}","reading":{{"temperature":{}.{:02},"humidity":{},"battery":{}}},)"
      R"("position":{{"lat":{}.{:06},"lon":{}.{:06}}},"state":"{}","firmware":"4.{}.{}","note":")",
      random() % 5000, random(), random() % 40, random() % 100, random() % 100, random() % 100,
      45 + random() % 4, random() % 1000000, 7 + random() % 6, random() % 1000000,
      random() % 10 == 0 ? "warning" : "normal", random() % 4, random() % 10);
  constexpr std::string_view kNote = "routine report, nothing unusual was observed since the last one";
  const std::size_t room = kPayloadBytes - 2 - out.size();
  out += kNote.substr(0, room);
  out.append(kPayloadBytes - 2 - out.size(), '.');
  return out + "\"}";
}

// The records of an object: text that they view, and the views.
struct Input {
  std::vector<std::string> partitions, ids, payloads;
  std::vector<lake::Record> records;
};

Input make_input(std::size_t count) {
  Input input;
  std::mt19937_64 random(1);
  const std::size_t each = count / kPartitions;
  for (std::size_t p = 0; p < kPartitions; ++p) input.partitions.push_back(fmt::format("device-{:04}", p));
  for (std::size_t i = 0; i < each * kPartitions; ++i) {
    input.ids.push_back(fmt::format("{:08x}{:08x}", 0x5eed, i));
    input.payloads.push_back(payload_of(random));
  }
  for (std::size_t i = 0; i < input.ids.size(); ++i) {
    const std::size_t offset = i % each;
    const std::size_t push = offset / kRecordsPerPush * kPartitions + i / each;
    input.records.push_back({input.partitions[i / each], offset, input.ids[i],
                             1'791'000'000'000'000 + static_cast<std::int64_t>(push) * 731,
                             lake::Payload::json, input.payloads[i]});
  }
  return input;
}

struct Encoded {
  Bytes object;
  double seconds = std::numeric_limits<double>::max();
};

Encoded encode(lake::Kind kind, const Input& input) {
  const double start = cpu_seconds();
  const auto writer = lake::make_writer(kind, {"readings", "00000000-0000-0000-0000-000000000001", "0.0.0"});
  for (const lake::Record& record : input.records)
    if (auto pushed = writer->push(record); !pushed) fail(pushed.error().what);
  auto object = writer->finish();
  if (!object) fail(object.error().what);
  return {*std::move(object), cpu_seconds() - start};
}

// The codec alone; its memory is touched before the clock starts.
Encoded compress_alone(const Bytes& text) {
  Encoded out{Bytes(ZSTD_compressBound(text.size()), '\0')};
  const double start = cpu_seconds();
  const std::size_t size = ZSTD_compress(out.object.data(), out.object.size(), text.data(), text.size(), 3);
  out.seconds = cpu_seconds() - start;
  if (ZSTD_isError(size)) fail(ZSTD_getErrorName(size));
  out.object.resize(size);
  return out;
}

}  // namespace

int main(int count, char** words) {
  if (count < 5) fail("lake_bench FORMAT CODEC RECORDS ROUNDS [TEXT_FILE]");
  const auto format = lake::parse_format(words[1]);
  const auto codec = lake::parse_codec(words[2]);
  if (!format || !codec || !lake::can_write({*format, *codec})) fail("there is no writer of this kind");
  const Input input = make_input(std::strtoull(words[3], nullptr, 10));
  const Bytes text = encode({lake::Format::jsonl, lake::Codec::none}, input).object;
  if (count > 5) std::ofstream(words[5], std::ios::binary) << text;
  Encoded writer, alone;
  for (int round = std::atoi(words[4]); round > 0; --round) {
    writer = std::min(encode({*format, *codec}, input), std::move(writer),
                      [](const Encoded& a, const Encoded& b) { return a.seconds < b.seconds; });
    alone = std::min(compress_alone(text), std::move(alone),
                     [](const Encoded& a, const Encoded& b) { return a.seconds < b.seconds; });
  }
  const auto rate = [&](double seconds) { return static_cast<double>(text.size()) / 1e6 / seconds; };
  fmt::print(
      R"({{"records":{},"text_bytes":{},"object_bytes":{},"codec_bytes":{},"mb_per_s":{:.1f},"codec_mb_per_s":{:.1f},)"
      R"("records_per_s":{:.0f}}})"
      "\n",
      input.records.size(), text.size(), writer.object.size(), alone.object.size(), rate(writer.seconds),
      rate(alone.seconds), static_cast<double>(input.records.size()) / writer.seconds);
}
