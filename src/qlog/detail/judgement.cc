#include "qlog/detail/judgement.h"

#include <algorithm>

namespace queen::qlog::detail {
namespace {

constexpr std::size_t kSampleRecords = 32;
// Asked at a time: the host answers under a gate that apply may wait for.
constexpr std::size_t kQuestionsMax = 256;

std::uint64_t bytes_of(const SealedIndex& index, std::size_t from, std::size_t to) {
  std::uint64_t bytes = 0;
  index.for_each(from, to, [&](const IndexRecord& record) { bytes += record.length; });
  return bytes;
}

double share_pct(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

Judgement::Judgement(LogId log, SealedFile file, std::shared_ptr<const SealedIndex> index,
                     std::size_t dead_prefix)
    : log_(log), file_(file), index_(std::move(index)), dead_prefix_(dead_prefix), at_(dead_prefix) {
  dead_bytes_ = bytes_of(*index_, 0, dead_prefix);
  total_bytes_ = dead_bytes_ + bytes_of(*index_, dead_prefix, index_->count());
}

bool Judgement::dead(const IndexRecord& record, const std::optional<UpkeepHost::Partition>& partition) const {
  return !partition || partition->log != log_ || record.end <= partition->txns_start;
}

double Judgement::sample_dead_pct(UpkeepHost& host, ReclaimBudget& budget) const {
  const std::size_t records = index_->count() - dead_prefix_;
  const std::size_t count = std::min({kSampleRecords, records, budget.look_ups_left});
  if (count == 0) return share_pct(dead_bytes_, total_bytes_);
  std::vector<IndexRecord> sample;
  std::vector<Pid> pids;
  for (std::size_t i = 0; i < count; ++i) {
    sample.push_back(index_->at(dead_prefix_ + i * records / count));
    pids.push_back({sample.back().pid});
  }
  const auto partitions = host.look_up(pids);
  budget.look_ups_left -= count;
  std::uint64_t dead_of_sample = 0, all_of_sample = 0;
  for (std::size_t i = 0; i < count; ++i) {
    all_of_sample += sample[i].length;
    if (dead(sample[i], partitions[i])) dead_of_sample += sample[i].length;
  }
  const double share = share_pct(dead_of_sample, all_of_sample) / 100.0;
  const auto left = static_cast<double>(total_bytes_ - dead_bytes_);
  return 100.0 * (static_cast<double>(dead_bytes_) + share * left) / static_cast<double>(total_bytes_);
}

std::vector<Judgement::Run> Judgement::next_runs(std::size_t most) const {
  const std::size_t count = index_->count();
  std::vector<Run> runs;
  for (std::size_t at = at_; at < count && runs.size() < most;) {
    const std::uint64_t pid = index_->at(at).pid;
    const std::size_t to =
        index_->first_not(at, count, [&](const IndexRecord& record) { return record.pid == pid; });
    runs.push_back({.from = at, .to = to, .dead_to = at});
    at = to;
  }
  return runs;
}

bool Judgement::go_on(UpkeepHost& host, ReclaimBudget& budget) {
  while (at_ < index_->count()) {
    if (budget.spent()) return false;
    const auto runs = next_runs(std::min(kQuestionsMax, budget.look_ups_left));
    std::vector<Pid> pids;
    for (const auto& run : runs) pids.push_back({index_->at(run.from).pid});
    const auto partitions = host.look_up(pids);
    budget.look_ups_left -= pids.size();
    for (std::size_t i = 0; i < runs.size(); ++i) settle(runs[i], partitions[i]);
    at_ = runs.back().to;
  }
  return true;
}

void Judgement::settle(Run run, const std::optional<UpkeepHost::Partition>& partition) {
  run.dead_to =
      index_->first_not(run.from, run.to, [&](const IndexRecord& record) { return dead(record, partition); });
  dead_bytes_ += bytes_of(*index_, run.from, run.dead_to);
  if (dead_prefix_ == run.from) dead_prefix_ = run.dead_to;
  if (run.dead_to < run.to) alive_.push_back(run);
}

double Judgement::dead_pct() const {
  return share_pct(dead_bytes_, total_bytes_);
}

std::vector<IndexRecord> Judgement::live() const {
  std::vector<IndexRecord> records;
  for (const auto& run : alive_)
    index_->for_each(run.dead_to, run.to, [&](const IndexRecord& record) { records.push_back(record); });
  std::ranges::sort(records, {}, &IndexRecord::position);
  return records;
}

}  // namespace queen::qlog::detail
