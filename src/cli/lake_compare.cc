#include "cli/lake_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/text.h"

namespace queen::cli {
namespace {

constexpr std::uint64_t kLoadBytes = 1ULL << 20;
constexpr std::uint64_t kOneRecord = 1;  // the first record comes whatever its size
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// JSON lines hold a line break between tokens as a blank; Parquet keeps it. Inside strings there is none.
bool same_json(std::string_view one, std::string_view other) {
  const auto plain = [](char c) { return c == '\n' || c == '\r' ? ' ' : c; };
  return std::ranges::equal(one, other, {}, plain, plain);
}

}  // namespace

const LogRecord* LakeCompare::at(std::uint64_t offset) const {
  const auto found = std::ranges::lower_bound(part_.records, offset, {}, &LogRecord::offset);
  return found != part_.records.end() && found->offset == offset ? &*found : nullptr;
}

Status LakeCompare::load(const std::string& partition, std::uint64_t offset) {
  auto part = log_.fetch(partition, offset, kLoadBytes);
  if (!part) return std::move(part).error();
  loaded_ = partition;
  part_ = *std::move(part);
  bounds_[partition].log_start = part_.log_start;
  return {};
}

Status LakeCompare::see(std::uint64_t k, const lake::ReadRecord& record) {
  const auto bounds = bounds_.find(record.partition);
  if (bounds == bounds_.end() || record.offset < bounds->second.log_start) return {};
  if (loaded_ != record.partition || at(record.offset) == nullptr)
    if (auto loaded = load(record.partition, record.offset); !loaded) return loaded;
  const LogRecord* stored = at(record.offset);
  if (stored == nullptr && record.offset < part_.log_start) return {};
  if (stored != nullptr && record.ts >= stored->ts) {
    compare(k, record, *stored);
    return {};
  }
  Other& other = other_[record.partition];
  if (other.count++ == 0) other = {k, record.offset, 1};
  return {};
}

void LakeCompare::compare(std::uint64_t k, const lake::ReadRecord& record, const LogRecord& stored) {
  ++compared_;
  const auto tell = [&](const char* reason, std::string what) {
    findings_.add({reason, k, "", record.partition, record.offset, std::move(what)});
  };
  if (record.ts != stored.ts)
    tell("ts", fmt::format("stamped {}, in the log {}", iso_micros(record.ts), iso_micros(stored.ts)));
  if (record.transaction_id != stored.transaction_id)
    tell("transactionId", fmt::format("transactionId {}, in the log {}", json_string(record.transaction_id),
                                      json_string(stored.transaction_id)));
  else if (!same_json(record.payload.value_or("null"), stored.payload))
    tell("payload", "the payload is not the one in the log");
}

Status LakeCompare::explained(std::uint64_t k, const lake::ReadRecord& record, std::uint64_t from,
                              std::uint64_t to) {
  const auto bounds = bounds_.find(record.partition);
  if (bounds == bounds_.end() || to < bounds->second.log_start) return {};
  auto part = log_.fetch(record.partition, std::max(from, bounds->second.log_start), kOneRecord);
  if (!part) return std::move(part).error();
  if (part->records.empty()) return {};
  const LogRecord& there = part->records.front();
  if (there.offset <= to && there.ts <= record.ts)
    findings_.add({"missing", k, "", record.partition, there.offset,
                   fmt::format("a manifest calls offsets {} to {} lost, and the log still has them",
                               there.offset, to)});
  return {};
}

Result<bool> LakeCompare::belongs_to_an_earlier_one(const std::string& partition, std::uint64_t log_start,
                                                    std::int64_t end) {
  // A partition made again and not in the lake yet: all that the log has of it is above the last window.
  auto part = log_.fetch(partition, log_start, kOneRecord);
  if (!part) return std::move(part).error();
  return part->records.empty() || part->records.front().ts >= end;
}

Status LakeCompare::finish(const LakePositions& positions, std::int64_t begin, std::int64_t end) {
  for (const auto& [partition, bounds] : bounds_) {
    const auto found = positions.partitions().find(partition);
    const PartitionSeen* seen = found == positions.partitions().end() ? nullptr : &found->second;
    if (const auto other = other_.find(partition); other != other_.end()) {
      const auto earlier = belongs_to_an_earlier_one(partition, bounds.log_start, end);
      if (!earlier) return earlier.error();
      if (*earlier) continue;
      const Other& records = other->second;
      findings_.add({"foreign", records.k, "", partition, records.first,
                     fmt::format("{} records from this offset on are not in the log", records.count)});
    }
    if (auto done = finish_partition(partition, bounds, seen, begin, end); !done) return done;
  }
  return {};
}

Status LakeCompare::finish_partition(const std::string& partition, LogBounds bounds,
                                     const PartitionSeen* seen, std::int64_t begin, std::int64_t end) {
  const auto in_log = static_cast<std::uint64_t>(bounds.last_offset + 1);
  if (in_log <= bounds.log_start) return {};
  std::uint64_t from = bounds.log_start;
  if (seen == nullptr || seen->first() > bounds.log_start) {
    const auto first = first_stamped(partition, bounds, begin);
    if (!first) return first.error();
    if (auto done = missing(partition, *first, seen == nullptr ? kNoLimit : seen->first(), end); !done)
      return done;
  }
  if (seen == nullptr) return {};
  from = std::max(from, seen->end());
  return from < in_log ? missing(partition, from, kNoLimit, end) : Status{};
}

Status LakeCompare::missing(const std::string& partition, std::uint64_t from, std::uint64_t to,
                            std::int64_t end) {
  std::uint64_t next = from, last = from;
  std::uint64_t count = 0, first = 0;
  for (bool more = true; more && next < to;) {
    auto part = log_.fetch(partition, next, count == 0 ? kOneRecord : kLoadBytes);
    if (!part) return std::move(part).error();
    more = !part->records.empty();
    for (const LogRecord& record : part->records) {
      more = record.offset < to && record.ts < end;
      if (!more) break;
      if (count++ == 0) first = record.offset;
      last = record.offset;
      next = record.offset + 1;
    }
  }
  if (count > 0)
    findings_.add({"missing", 0, "", partition, first,
                   fmt::format("offsets {} to {} are in the log and in no window", first, last)});
  return {};
}

Result<std::uint64_t> LakeCompare::first_stamped(const std::string& partition, LogBounds bounds,
                                                 std::int64_t ts) {
  std::uint64_t low = bounds.log_start, high = static_cast<std::uint64_t>(bounds.last_offset + 1);
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    auto part = log_.fetch(partition, middle, kOneRecord);
    if (!part) return std::move(part).error();
    if (part->records.empty() || part->records.front().ts >= ts)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace queen::cli
