#include "qlog/detail/judgement.h"

#include <algorithm>

namespace queen::qlog::detail {
namespace {

constexpr std::size_t kSampleRecords = 32;
// Asked at a time: the host answers under a gate that apply may wait for.
constexpr std::size_t kQuestionsMax = 256;

std::uint64_t bytes_of(std::span<const IndexRecord> records) {
  std::uint64_t bytes = 0;
  for (const auto& record : records) bytes += record.length;
  return bytes;
}

double share_pct(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

Judgement::Judgement(LogId log, SealedFile file, std::shared_ptr<const IndexFile> index,
                     std::size_t dead_prefix)
    : log_(log), file_(file), index_(std::move(index)), dead_prefix_(dead_prefix), at_(dead_prefix) {
  const std::span records(index_->records);
  total_bytes_ = bytes_of(records);
  dead_bytes_ = bytes_of(records.first(dead_prefix));
}

bool Judgement::dead(const IndexRecord& record, const std::optional<UpkeepHost::Partition>& partition) const {
  return !partition || partition->log != log_ || record.end <= partition->txns_start;
}

double Judgement::sample_dead_pct(UpkeepHost& host, ReclaimBudget& budget) const {
  const std::span records = std::span(index_->records).subspan(dead_prefix_);
  const std::size_t count = std::min({kSampleRecords, records.size(), budget.look_ups_left});
  if (count == 0) return share_pct(dead_bytes_, total_bytes_);
  std::vector<IndexRecord> sample;
  std::vector<Pid> pids;
  for (std::size_t i = 0; i < count; ++i) {
    sample.push_back(records[i * records.size() / count]);
    pids.push_back({sample.back().pid});
  }
  const auto partitions = host.look_up(pids);
  budget.look_ups_left -= count;
  std::uint64_t dead_of_sample = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (dead(sample[i], partitions[i])) dead_of_sample += sample[i].length;
  const double share = share_pct(dead_of_sample, bytes_of(sample)) / 100.0;
  const auto left = static_cast<double>(total_bytes_ - dead_bytes_);
  return 100.0 * (static_cast<double>(dead_bytes_) + share * left) / static_cast<double>(total_bytes_);
}

std::vector<Judgement::Run> Judgement::next_runs(std::size_t most) const {
  const std::span records(index_->records);
  std::vector<Run> runs;
  for (std::size_t at = at_; at < records.size() && runs.size() < most;) {
    const auto rest = records.subspan(at);
    const auto end = std::ranges::upper_bound(rest, rest.front().pid, {}, &IndexRecord::pid);
    const std::size_t to = at + static_cast<std::size_t>(end - rest.begin());
    runs.push_back({.from = at, .to = to, .dead_to = at});
    at = to;
  }
  return runs;
}

bool Judgement::go_on(UpkeepHost& host, ReclaimBudget& budget) {
  while (at_ < index_->records.size()) {
    if (budget.spent()) return false;
    const auto runs = next_runs(std::min(kQuestionsMax, budget.look_ups_left));
    std::vector<Pid> pids;
    for (const auto& run : runs) pids.push_back({index_->records[run.from].pid});
    const auto partitions = host.look_up(pids);
    budget.look_ups_left -= pids.size();
    for (std::size_t i = 0; i < runs.size(); ++i) settle(runs[i], partitions[i]);
    at_ = runs.back().to;
  }
  return true;
}

void Judgement::settle(Run run, const std::optional<UpkeepHost::Partition>& partition) {
  const auto records = std::span(index_->records).subspan(run.from, run.to - run.from);
  const auto first_alive = std::ranges::partition_point(
      records, [&](const IndexRecord& record) { return dead(record, partition); });
  run.dead_to = run.from + static_cast<std::size_t>(first_alive - records.begin());
  dead_bytes_ += bytes_of({records.begin(), first_alive});
  if (dead_prefix_ == run.from) dead_prefix_ = run.dead_to;
  if (run.dead_to < run.to) alive_.push_back(run);
}

double Judgement::dead_pct() const {
  return share_pct(dead_bytes_, total_bytes_);
}

std::vector<IndexRecord> Judgement::live() const {
  std::vector<IndexRecord> records;
  for (const auto& run : alive_)
    records.insert(records.end(), index_->records.begin() + static_cast<std::ptrdiff_t>(run.dead_to),
                   index_->records.begin() + static_cast<std::ptrdiff_t>(run.to));
  std::ranges::sort(records, {}, &IndexRecord::position);
  return records;
}

}  // namespace queen::qlog::detail
