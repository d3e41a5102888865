// Transactions: acks, pushes, positions, KV operations and timers that take place together or not at all
// (api-messaging.md 7). Each part is planned by the code that plans it alone, on trial; the first that
// refuses drops all of them.
#include "base/planted_bugs.h"
#include "machine/detail/cycle.h"
#include "machine/detail/trial.h"

namespace queen::machine::detail {
namespace {

struct Rollback {
  std::string reason, error;
};
using Verdict = std::optional<Rollback>;

struct Transaction {
  Cycle& cycle;  // on trial
  const Command& command;
  const TransactionCommand& body;
  TransactionOutcome& out;

  // The steps, in the order in which their refusals are reported (7.4).
  Verdict acks();
  Verdict pushes();
  Verdict positions();
  Verdict kv();
  Verdict timers();
};

// Repeats that no row knows are looked for among the command's facts; what those do not cover is asked for.
void look_back(const AckCommand& ack, AckOutcome& out) {
  for (AckOutcome::LookBack& one : out.look_back) {
    if (ack.cold.covers(one.range.pid, one.range.from, one.range.to))
      answer_looked_back(ack, one.range, ack.cold, one.items, out);
    else
      out.cold_asks.push_back(one.range);
  }
  out.look_back.clear();
}

Verdict Transaction::acks() {
  for (const AckCommand& ack : body.acks) {
    AckOutcome& acked = out.acks.emplace_back(plan_ack(cycle, command, ack, Repeats::refused));
    look_back(ack, acked);
    out.undecided = out.undecided || !acked.cold_asks.empty();
  }
  if (out.undecided) return std::nullopt;
  for (const AckOutcome& acked : out.acks)
    for (const AckItemOutcome& item : acked.items)
      if (!item.success) return Rollback{"rejected_ack", item.error};
  return std::nullopt;
}

Verdict Transaction::pushes() {
  using Status = PushItemOutcome::Status;
  Outcome pushed = plan_push(cycle, command, body.push);
  if (!pushed.code.empty()) return Rollback{std::move(pushed.code), std::move(pushed.error)};
  out.push = std::get<PushOutcome>(std::move(pushed.body));
  for (std::size_t i = 0; i < out.push.batches.size(); ++i) {
    const std::string where = body.push.batches[i].partition + " of queue " + body.push.batches[i].queue;
    for (const PushItemOutcome& item : out.push.batches[i].items) {
      if (item.status == Status::too_large)
        return Rollback{"too_large", "the pushes to partition " + where + " are larger than an entry may be"};
      if (item.status == Status::duplicate && !item.first_in_batch)
        return Rollback{"duplicate", "partition " + where + " holds a pushed transactionId already"};
    }
  }
  return std::nullopt;
}

Verdict Transaction::positions() {
  std::uint64_t bytes = 0;
  for (const Position& position : body.positions) bytes += position_bytes(position);
  if (bytes > body.positions_bytes_max)
    return Rollback{"too_large", "the positions are larger than an entry may be"};
  for (std::size_t i = 0; i < body.positions.size(); ++i)
    if (!plan_position(cycle, command, body.positions[i], i))
      return Rollback{"queue_not_found", "queue " + body.positions[i].queue + " does not exist"};
  return std::nullopt;
}

Verdict Transaction::kv() {
  out.kv = plan_kv(cycle, command, body.kv);
  if (!out.kv.failed_index) return std::nullopt;
  return Rollback{"kv_precondition", "a required KV operation lost: " + out.kv.failed_reason};
}

Verdict Transaction::timers() {
  Outcome planned = plan_timers(cycle, command, body.timers);
  if (!planned.code.empty()) return Rollback{std::move(planned.code), std::move(planned.error)};
  out.timers = std::get<TimersOutcome>(std::move(planned.body));
  return std::nullopt;
}

}  // namespace

TransactionOutcome plan_transaction(Cycle& cycle, const Command& command, const TransactionCommand& body) {
  TransactionOutcome out;
  Trial trial(cycle);
  Transaction transaction{trial.cycle(), command, body, out};
  using Step = Verdict (Transaction::*)();
  for (const Step step : {&Transaction::acks, &Transaction::pushes, &Transaction::positions, &Transaction::kv,
                          &Transaction::timers}) {
    Verdict verdict = (transaction.*step)();
    if (out.undecided) return out;
    if (!verdict) continue;
    if (planted(PlantedBug::machine_transaction_half_done) && step == &Transaction::kv) trial.keep();
    out.reason = std::move(verdict->reason);
    out.error = std::move(verdict->error);
    return out;
  }
  trial.keep();
  return out;
}

}  // namespace queen::machine::detail
