#include "qlog/detail/judgement.h"

#include <algorithm>

namespace queen::qlog::detail {
namespace {

constexpr std::size_t kSampleRecords = 32;
// Asked at a time: the host answers under a gate that apply may wait for.
constexpr std::size_t kQuestionsMax = 256;

}  // namespace

Judgement::Judgement(LogId log, SealedFile file, std::shared_ptr<const SealedIndex> index,
                     std::size_t dead_prefix)
    : log_(log),
      file_(file),
      index_(std::move(index)),
      dead_prefix_(dead_prefix),
      at_(dead_prefix),
      any_dead_(dead_prefix > 0) {}

bool Judgement::dead(const IndexRecord& record, const std::optional<UpkeepHost::Partition>& partition) const {
  return !partition || partition->log != log_ || record.end <= partition->txns_start;
}

double Judgement::sample_dead_pct(UpkeepHost& host, ReclaimBudget& budget) const {
  const std::size_t left = index_->count() - dead_prefix_;
  const std::size_t count = std::min({kSampleRecords, left, budget.look_ups_left});
  if (count == 0) return 100;
  std::vector<IndexRecord> sample;
  std::vector<Pid> pids;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = dead_prefix_ + i * left / count;
    sample.push_back(index_->at(at));
    pids.push_back({sample.back().pid});
  }
  const auto partitions = host.look_up(pids);
  budget.look_ups_left -= count;
  std::size_t dead_of_sample = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (dead(sample[i], partitions[i])) ++dead_of_sample;
  const double guessed = static_cast<double>(dead_of_sample * left) / static_cast<double>(count);
  return 100.0 * (static_cast<double>(dead_prefix_) + guessed) / static_cast<double>(index_->count());
}

std::vector<Judgement::Run> Judgement::next_runs(std::size_t most) const {
  std::vector<Run> runs;
  for (std::size_t at = at_; at < index_->count() && runs.size() < most;) {
    Run run{.pid = {index_->at(at).pid}, .from = at, .to = at, .dead_to = at};
    run.to = index_->first_not(at, index_->count(),
                               [&](const IndexRecord& record) { return record.pid == run.pid.value; });
    at = run.to;
    runs.push_back(run);
  }
  return runs;
}

bool Judgement::go_on(UpkeepHost& host, ReclaimBudget& budget) {
  while (at_ < index_->count()) {
    if (budget.spent()) return false;
    const auto runs = next_runs(std::min(kQuestionsMax, budget.look_ups_left));
    std::vector<Pid> pids;
    for (const auto& run : runs) pids.push_back(run.pid);
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
  any_dead_ = any_dead_ || run.dead_to > run.from;
  if (dead_prefix_ == run.from) dead_prefix_ = run.dead_to;
  if (run.dead_to < run.to) alive_.push_back(run);
}

double Judgement::dead_pct() const {
  std::uint64_t total = 0, alive = 0;
  index_->for_each(0, index_->count(), [&](const IndexRecord& record) { total += record.length; });
  for (const auto& run : alive_)
    index_->for_each(run.dead_to, run.to, [&](const IndexRecord& record) { alive += record.length; });
  return total == 0 ? 0 : 100.0 * static_cast<double>(total - alive) / static_cast<double>(total);
}

std::vector<IndexRecord> Judgement::live() const {
  std::vector<IndexRecord> records;
  for (const auto& run : alive_)
    index_->for_each(run.dead_to, run.to, [&](const IndexRecord& record) { records.push_back(record); });
  std::ranges::sort(records, {}, &IndexRecord::position);
  return records;
}

}  // namespace queen::qlog::detail
