// Compares the records of a lake with those that the broker's log still holds.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "cli/broker_log.h"
#include "cli/lake_findings.h"
#include "cli/lake_positions.h"
#include "lake/record_reader.h"

namespace queen::cli {

// What retention has removed, and what an earlier partition of the same name held, cannot be compared and is
// no finding.
class LakeCompare {
 public:
  // `partitions` was read after the commit pointer up to which the lake is judged. Both references outlive
  // it.
  LakeCompare(BrokerLog& log, std::map<std::string, LogBounds> partitions, LakeFindings& findings)
      : log_(log), bounds_(std::move(partitions)), findings_(findings) {}

  // Each record of the lake, in the order of its objects. Errors: those of BrokerLog.
  Status see(std::uint64_t k, const lake::ReadRecord& record);
  // A gap before `record` that a manifest explains: it must not be in the log either.
  Status explained(std::uint64_t k, const lake::ReadRecord& record, std::uint64_t from, std::uint64_t to);
  // What was seen of the name so far was another partition's.
  void made_again(const std::string& partition) { other_.erase(partition); }
  // When all windows were seen: every record stamped `begin` or later and below `end` must have been. µs.
  Status finish(const LakePositions& positions, std::int64_t begin, std::int64_t end);
  std::uint64_t compared() const { return compared_; }

 private:
  struct Other {  // records that are not those of the log at their offsets
    std::uint64_t k = 0, first = 0, count = 0;
  };
  const LogRecord* at(std::uint64_t offset) const;
  Status load(const std::string& partition, std::uint64_t offset);
  void compare(std::uint64_t k, const lake::ReadRecord& record, const LogRecord& stored);
  Status finish_partition(const std::string& partition, LogBounds bounds, const PartitionSeen* seen,
                          std::int64_t begin, std::int64_t end);
  // Tells of the records from `from` on, below `to`, that are stamped below `end`.
  Status missing(const std::string& partition, std::uint64_t from, std::uint64_t to, std::int64_t end);
  Result<std::uint64_t> first_stamped(const std::string& partition, LogBounds bounds, std::int64_t ts);
  Result<bool> belongs_to_an_earlier_one(const std::string& partition, std::uint64_t log_start,
                                         std::int64_t end);

  BrokerLog& log_;
  std::map<std::string, LogBounds> bounds_;
  LakeFindings& findings_;
  std::map<std::string, Other> other_;
  std::string loaded_;  // the partition that `part_` is of
  LogPart part_;
  std::uint64_t compared_ = 0;
};

}  // namespace queen::cli
