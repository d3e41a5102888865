// A closed window: its records in object order, ready to be written (s3-sink.md 8.6).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sink/layout.h"
#include "sink/manifest.h"

namespace queen::sink {

// A record waiting in memory. The views point into what `owner` keeps alive; several records share one owner.
struct BufferedRecord {
  std::uint64_t offset = 0;
  std::int64_t ts = 0;  // µs
  std::string_view transaction_id;
  std::string_view payload;
  lake::Payload payload_kind = lake::Payload::json;
  std::shared_ptr<const void> owner;
};

// What a record counts against the targets and the memory budget: 64 + transactionId + partition name +
// payload text (4 for a null payload).
std::uint64_t weight_of(std::string_view partition, const BufferedRecord& record);

struct PlannedPartition {
  std::string name;
  std::vector<BufferedRecord> records;  // in offset order, an older incarnation first
};

struct WindowPlan {
  WindowBounds bounds;
  std::vector<PlannedPartition> partitions;  // in byte order of their names, none empty
  std::vector<LostRange> lost;               // found while this window was filled
  std::uint64_t records = 0;
  std::uint64_t weight = 0;
};

}  // namespace queen::sink
