// Which offsets of each partition a lake has shown: finds doubles and gaps while the windows go by in order.
// Holds one entry per partition, whatever the number of records.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/lake_findings.h"
#include "lake/record_reader.h"
#include "sink/manifest.h"

namespace queen::cli {

// What was seen of the partition that has the name now. A partition that was deleted and made again begins
// anew: its offsets start over, and its stamps are above all of the one before.
struct PartitionSeen {
  std::map<std::uint64_t, std::uint64_t>
      runs;                           // first offset -> end, exclusive; one run unless there are gaps
  std::int64_t ts_max = 0;            // of the highest offset
  std::vector<sink::LostRange> lost;  // declared, and no record behind them yet
  bool made_again = false;            // an earlier partition of the name went before

  std::uint64_t first() const { return runs.begin()->first; }
  std::uint64_t end() const { return runs.rbegin()->second; }
};

class LakePositions {
 public:
  // Called where a manifest explains a gap: `from` to `to`, inclusive, before `record`.
  using Explained = std::function<void(const lake::ReadRecord& record, std::uint64_t from, std::uint64_t to)>;
  // Called where a record shows that the partition was made again.
  using MadeAgain = std::function<void(const std::string& partition)>;

  explicit LakePositions(LakeFindings& findings) : findings_(findings) {}
  void on_explained(Explained call) { explained_ = std::move(call); }
  void on_made_again(MadeAgain call) { made_again_ = std::move(call); }

  // Window by window, in order; records in the order of the objects.
  void begin_window(const sink::Manifest& manifest);
  void see(const lake::ReadRecord& record);
  void end_window();
  const std::map<std::string, PartitionSeen>& partitions() const { return partitions_; }

 private:
  void tell_gaps(const std::string& partition, PartitionSeen& seen);
  void gap(const std::string& partition, PartitionSeen& seen, std::uint64_t from, std::uint64_t to,
           const lake::ReadRecord& behind);
  void add(const lake::ReadRecord& record, PartitionSeen& seen);

  LakeFindings& findings_;
  Explained explained_;
  MadeAgain made_again_;
  std::map<std::string, PartitionSeen> partitions_;
  std::vector<std::string> gapped_;  // partitions of this window with more than one run
  std::uint64_t k_ = 0;
};

}  // namespace queen::cli
