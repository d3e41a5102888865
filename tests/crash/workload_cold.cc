// Steps after which append rows are gone from RAM while their messages stay (storage.md RT-9, RT-10, CE-8),
// commands that then ask the log, and scrubs. What such commands answer is judged by the model.
#include <fmt/format.h>

#include "broker/cold_log.h"
#include "workload.h"

namespace queen::crash {

using machine::AckCommand;
using machine::AckOutcome;
using machine::PopCommand;
using machine::PopOutcome;

namespace {

constexpr std::int64_t kWindow = 20'000'000;  // longer than the dedup window of every queue
constexpr int kRoundsMax = 8;                 // of one command; nothing moves meanwhile

const std::vector<machine::ColdAsk>* asked(const machine::Outcome& outcome) {
  if (const auto* pop = std::get_if<PopOutcome>(&outcome.body)) return &pop->cold_asks;
  if (const auto* ack = std::get_if<AckOutcome>(&outcome.body)) return &ack->cold_asks;
  // The workload's transactions have the acks of one group.
  const auto* transaction = std::get_if<machine::TransactionOutcome>(&outcome.body);
  return transaction != nullptr ? &transaction->acks.at(0).cold_asks : nullptr;
}

machine::ColdFacts& facts_of(machine::Command& command) {
  if (auto* pop = std::get_if<PopCommand>(&command.body)) return pop->cold;
  if (auto* transaction = std::get_if<machine::TransactionCommand>(&command.body))
    return transaction->acks.at(0).cold;
  return std::get<AckCommand>(command.body).cold;
}

}  // namespace

// The last outcomes; none when the log could not be read, the disk was full or the node stopped.
std::vector<machine::Outcome> Workload::submit_with_facts(Ask made) {
  const broker::ColdLog log(node_.logs());
  for (int round = 0; round < kRoundsMax; ++round) {
    auto outcomes = submit({{made}});
    if (outcomes.empty() || node_.stopped()) return {};
    const auto* asks = asked(outcomes[0]);
    if (asks == nullptr || asks->empty()) return outcomes;
    ++did_["asked"];
    if (auto told = log.read(*asks, facts_of(made.command)); !told) {
      if (reads == Reads::must_succeed) wrong_ = "facts: " + told.error().what;
      return {};
    }
  }
  wrong_ = "a command asks the log without end";
  return {};
}

// Every claim begins behind what its group finished, whether rows know that place or only the log does.
void Workload::judge_claims(const PopCommand& pop, const PopOutcome& popped) {
  const Model& model = model_at(answered_);
  const auto firsts = unfinished(model, pop.queue, pop.group);
  for (const auto& claim : popped.claims) {
    const auto want = firsts.find(claim.pid.value);
    if (want == firsts.end() || claim.first != want->second || claim.last < claim.first ||
        claim.last - claim.first >= pop.batch ||
        claim.last >= model.partitions.at(claim.pid.value).numbers.size())
      wrong_ =
          fmt::format("claim {}..{} of pid {} by {}", claim.first, claim.last, claim.pid.value, pop.group);
  }
  // Where nothing ever failed no lease is left behind by an earlier step.
  const bool calm = refused_ == 0 && reads == Reads::must_succeed;
  if (calm && popped.claims.empty() && !firsts.empty())
    wrong_ = fmt::format("nothing of {} for {}", pop.queue, pop.group);
}

void Workload::judge_ack(AckCommand ack, AckOutcome acked) {
  if (!acked.look_back.empty()) {
    ++did_["looked back"];
    const auto told = broker::ColdLog(node_.logs()).look_back(ack, acked);
    if (!told && reads == Reads::may_fail) return;
  }
  for (const auto& item : acked.items)
    if (!item.success) wrong_ = "ack: " + item.error;
}

// All append rows of a queue's partitions leave, or those of the first half of them; no message does.
void Workload::drop_rows() {
  clock_.advance(kWindow);
  const Model& model = model_at(answered_);
  const bool all = pick(2) == 0;
  machine::RetentionCommand command;
  for (const auto& [pid, row] : model.partitions) {
    if (!model.retention_seconds.contains(row.queue) || row.appends.empty()) continue;
    const AppendFact& last = all ? row.appends.back() : row.appends[(row.appends.size() - 1) / 2];
    if (last.end <= row.rows_start) continue;
    machine::RetentionMove move;
    move.pid = Pid{pid};
    move.log_start_from = row.log_start;
    move.rows_start = last.end;
    move.rows_stamp = last.created_at;
    command.moves.push_back(std::move(move));
  }
  if (!command.moves.empty()) submit({{ask(std::move(command))}});
}

// A-11, DD-9: what is acknowledged a second time is known, also when no row tells of it.
void Workload::ack_again() {
  const Model& model = model_at(answered_);
  AckCommand ack;
  for (const auto& [of, committed] : model.committed) {
    const ModelPartition& partition = model.partitions.at(of.first);
    if (of.second != ack.group || committed < partition.log_start) continue;
    const std::uint32_t number = partition.numbers[static_cast<std::size_t>(partition.log_start)];
    // A message that was pushed anew when its window was over is another one.
    if (std::count(partition.numbers.begin() + partition.log_start, partition.numbers.end(), number) != 1)
      continue;
    machine::AckItem item;
    item.partition_id = std::to_string(of.first);
    item.transaction_id = transaction_id(number);
    item.hash = xxh3_128(item.transaction_id);
    item.dlq_id = uuid();
    ack.items.push_back(std::move(item));
  }
  if (ack.items.empty()) return;
  const auto answers = submit_with_facts(ask(ack));
  if (!answers.empty()) judge_ack(ack, std::get<AckOutcome>(answers[0].body));
}

// CR-2, CR-6: nothing of what was written is damaged. A read that failed once is reported as damage, and no
// longer when the next round can read the file.
void Workload::scrub() {
  auto done = node_.scrub();
  if (!done && reads == Reads::may_fail) done = node_.scrub();
  if (!done) wrong_ = "scrub: " + done.error().what;
}

}  // namespace queen::crash
