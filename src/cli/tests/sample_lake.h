// A lake of three windows written by hand, and the log that it is the copy of.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/executor.h"
#include "base/text.h"
#include "cli/broker_log.h"
#include "cli/lake_bucket.h"
#include "cli/lake_verify.h"
#include "lake/record_writer.h"
#include "s3/digests.h"
#include "s3/memory_store.h"
#include "sink/manifest.h"

namespace queen::cli {

inline constexpr std::int64_t kHour = 1'794'042'000'000'000;  // 2026-11-07T09:00:00Z
inline const sink::LakePath kPath{"queen", std::string(kDefaultTenant), "rides"};

struct SampleRecord {
  std::string partition;
  std::uint64_t offset = 0;
  std::string transaction_id;
  std::int64_t ts = 0;
  std::string payload;  // `null` is none
};
struct SampleWindow {
  sink::WindowBounds bounds;
  std::vector<SampleRecord> records;
  std::vector<sink::LostRange> lost = {};
};

// Between windows 2 and 3 lies a step over the hour.
inline std::vector<SampleWindow> sample_windows() {
  return {{{1, kHour, kHour + 1000},
           {{"a", 0, "t0", kHour + 10, "{\"n\":42.00}"},
            {"a", 1, "t1", kHour + 20, "null"},
            {"b", 0, "t2", kHour + 20, "1"}}},
          {{2, kHour + 1000, kHour + 2000},
           {{"a", 2, "t3", kHour + 1000, "[ ]"}, {"b", 1, "t4", kHour + 1999, "\"x\""}}},
          {{3, kHour + 3'600'000'000, kHour + 3'600'001'000},
           {{"b", 2, "t5", kHour + 3'600'000'500, "{\"k\":\n1}"}}}};
}

inline std::string line_of(const SampleRecord& record) {
  std::string payload = record.payload;
  std::ranges::replace(payload, '\n', ' ');
  return "{\"partition\":\"" + record.partition + "\",\"offset\":" + std::to_string(record.offset) +
         ",\"transactionId\":\"" + record.transaction_id + "\",\"ts\":\"" + iso_micros(record.ts) +
         "\",\"payload\":" + payload + "}";
}

class SampleLake {
 public:
  explicit SampleLake(const std::vector<SampleWindow>& windows = sample_windows(),
                      lake::Kind kind = {lake::Format::jsonl, lake::Codec::none})
      : kind_(kind) {
    for (const SampleWindow& window : windows) put(window);
  }
  ~SampleLake() { executor_.stop(); }
  SampleLake(const SampleLake&) = delete;

  // Lines are put together here and not by the writer, which refuses what some of these tests need.
  void put(const SampleWindow& window) {
    Bytes bytes;
    if (kind_.codec == lake::Codec::none) {
      for (const SampleRecord& record : window.records) bytes += line_of(record) + "\n";
    } else {
      bytes = written(window);
    }
    sink::Manifest manifest;
    manifest.sink = "default";
    manifest.tenant = kPath.tenant;
    manifest.queue = kPath.queue;
    manifest.bounds = window.bounds;
    manifest.format = lake::name_of(kind_.format);
    manifest.compression = lake::name_of(kind_.codec);
    manifest.layout = "merged";
    const std::string key = sink::data_key(kPath, sink::Align::hour, window.bounds, lake::extension(kind_));
    manifest.objects = {{key, bytes.size(), window.records.size(), s3::sha256_hex(bytes), std::nullopt}};
    manifest.records = window.records.size();
    manifest.bytes = bytes.size();
    std::set<std::string> partitions;
    for (const SampleRecord& record : window.records) {
      partitions.insert(record.partition);
      manifest.min_ts = std::min(manifest.min_ts.value_or(record.ts), record.ts);
      manifest.max_ts = std::max(manifest.max_ts.value_or(record.ts), record.ts);
    }
    manifest.partitions = partitions.size();
    manifest.lost = window.lost;
    manifest.writer = "w";
    put(manifest);
    store.insert(key, std::move(bytes));
  }
  void put(const sink::Manifest& manifest) {
    store.insert(sink::manifest_key(kPath, manifest.bounds.k), sink::encode(manifest));
  }
  sink::Manifest manifest(std::uint64_t k) {
    return *sink::parse_manifest(*store.object(sink::manifest_key(kPath, k)));
  }
  std::string object_key(std::uint64_t k) { return manifest(k).objects.at(0).key; }

 private:
  Bytes written(const SampleWindow& window) const {
    const auto writer = lake::make_writer(kind_, {kPath.queue, kPath.tenant, "0.0.0"});
    for (const SampleRecord& from : window.records) {
      lake::Record record;
      record.partition = from.partition;
      record.offset = from.offset;
      record.transaction_id = from.transaction_id;
      record.ts = from.ts;
      record.payload_kind = from.payload == "null" ? lake::Payload::null : lake::Payload::json;
      record.payload = from.payload;
      if (!writer->push(record)) return {};
    }
    return *writer->finish();
  }

  const lake::Kind kind_;
  SystemClock clock_;
  ThreadExecutor executor_{"sample-lake", clock_};

 public:
  s3::MemoryStore store{executor_};
  LakeBucket bucket{store, kPath};
};

// The log in the broker's hands, at most two records an answer.
class SampleLog final : public BrokerLog {
 public:
  explicit SampleLog(const std::vector<SampleWindow>& windows = sample_windows()) {
    for (const SampleWindow& window : windows) {
      for (const SampleRecord& record : window.records)
        records[record.partition].push_back(
            {record.offset, record.transaction_id, record.ts, record.payload});
      pointer =
          sink::Committed{window.bounds.k, window.bounds.t_end, sink::manifest_key(kPath, window.bounds.k)};
    }
  }
  // The pointer says what the manifest of its window says.
  explicit SampleLog(SampleLake& lake) : SampleLog() {
    const auto last = lake.manifest(pointer->k);
    pointer->records = last.records;
    pointer->bytes = last.bytes;
  }

  Result<std::optional<sink::Committed>> committed(const std::string&) override { return pointer; }
  Result<std::map<std::string, LogBounds>> partitions() override {
    std::map<std::string, LogBounds> out;
    for (const auto& [name, list] : records)
      out[name] = {log_start[name], list.empty() ? -1 : static_cast<std::int64_t>(list.back().offset)};
    return out;
  }
  Result<LogPart> fetch(const std::string& partition, std::uint64_t offset, std::uint64_t) override {
    LogPart part;
    part.log_start = log_start[partition];
    for (const LogRecord& record : records[partition]) {
      part.high_watermark = record.offset + 1;
      if (record.offset >= std::max(offset, part.log_start) && part.records.size() < 2)
        part.records.push_back(record);
    }
    return part;
  }

  std::map<std::string, std::vector<LogRecord>> records;
  std::map<std::string, std::uint64_t> log_start;
  std::optional<sink::Committed> pointer;
};

}  // namespace queen::cli
