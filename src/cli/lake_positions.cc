#include "cli/lake_positions.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace queen::cli {
namespace {

// Out of order in one object, records leave holes that later ones fill: more than so many are told of at
// once.
constexpr std::size_t kRunsMax = 1000;

}  // namespace

void LakePositions::begin_window(const sink::Manifest& manifest) {
  k_ = manifest.bounds.k;
  for (const sink::LostRange& lost : manifest.lost) {
    const auto found = partitions_.find(lost.partition);
    // Nothing was seen of the partition: wherever it begins, that is no gap.
    if (found != partitions_.end()) found->second.lost.push_back(lost);
  }
}

void LakePositions::see(const lake::ReadRecord& record) {
  PartitionSeen& seen = partitions_[record.partition];
  if (!seen.runs.empty() && record.offset < seen.end() && record.ts > seen.ts_max) {
    tell_gaps(record.partition, seen);
    seen = PartitionSeen{};
    seen.made_again = true;
    if (made_again_) made_again_(record.partition);
  }
  add(record, seen);
}

void LakePositions::add(const lake::ReadRecord& record, PartitionSeen& seen) {
  const std::uint64_t offset = record.offset;
  auto behind = seen.runs.upper_bound(offset);
  const auto at = behind == seen.runs.begin() ? seen.runs.end() : std::prev(behind);
  if (at != seen.runs.end() && offset < at->second) {
    findings_.add({"duplicate", k_, "", record.partition, offset, "the record is there more than once"});
    return;
  }
  const bool highest = behind == seen.runs.end();
  if (highest && !seen.runs.empty() && record.ts < seen.ts_max)
    findings_.add({"time", k_, "", record.partition, offset,
                   fmt::format("stamped {}, before the record below it", iso_micros(record.ts))});
  if (highest) seen.ts_max = std::max(seen.ts_max, record.ts);
  const bool joins_below = at != seen.runs.end() && at->second == offset;
  const bool joins_above = behind != seen.runs.end() && behind->first == offset + 1;
  std::uint64_t end = offset + 1;
  if (joins_above) {
    end = behind->second;
    seen.runs.erase(behind);
  }
  if (joins_below)
    at->second = end;
  else
    seen.runs[offset] = end;
  if (seen.runs.size() == 1) return;
  // The gap below the highest record may be one that its manifest explains.
  if (highest && !joins_below) gap(record.partition, seen, at->second, offset - 1, record);
  if (seen.runs.size() > 1) gapped_.push_back(record.partition);
  if (seen.runs.size() > kRunsMax) tell_gaps(record.partition, seen);
}

void LakePositions::gap(const std::string& partition, PartitionSeen& seen, std::uint64_t from,
                        std::uint64_t to, const lake::ReadRecord& behind) {
  std::uint64_t next = from;
  std::ranges::sort(seen.lost, {}, &sink::LostRange::from);
  for (const sink::LostRange& lost : seen.lost)
    if (lost.from <= next && lost.to >= next) next = lost.to + 1;
  if (next <= to) return;  // not explained: told of at the end of the window, unless filled until then
  std::erase_if(seen.lost, [&](const sink::LostRange& lost) { return lost.to <= to; });
  const auto below = std::prev(seen.runs.end(), 2);
  below->second = seen.runs.rbegin()->second;
  seen.runs.erase(std::prev(seen.runs.end()));
  if (next > to + 1)
    findings_.add(
        {"lost", k_, "", partition, to + 1,
         fmt::format("a manifest calls offsets up to {} lost, and this record is there", next - 1)});
  if (explained_) explained_(behind, from, to);
}

void LakePositions::tell_gaps(const std::string& partition, PartitionSeen& seen) {
  for (auto run = seen.runs.begin(); run != seen.runs.end() && std::next(run) != seen.runs.end();) {
    const auto behind = std::next(run);
    findings_.add({"missing", k_, "", partition, run->second,
                   fmt::format("offsets {} to {} are in no window", run->second, behind->first - 1)});
    run->second = behind->second;
    seen.runs.erase(behind);
  }
}

void LakePositions::end_window() {
  for (const std::string& partition : gapped_) tell_gaps(partition, partitions_[partition]);
  gapped_.clear();
}

}  // namespace queen::cli
