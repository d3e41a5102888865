// Timers: scheduling a message, taking it back, and firing what is due (api-state.md 3.4).
#include <algorithm>
#include <limits>

#include "base/planted_bugs.h"
#include "machine/detail/cycle.h"

namespace queen::machine::detail {
namespace {

constexpr std::string_view kTimerGroup = "__timer__";  // of a dead letter that was a timer

std::optional<store::TimerRow> timer_row(const Cycle& cycle, const Command& command, std::string_view queue,
                                         std::string_view key) {
  return must(
      read_row<store::TimerRow>(cycle.view, Keyspace::timers, store::timer_key(command.tenant, queue, key)));
}

std::int64_t saturating_add(std::int64_t at, std::int64_t delay) {
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  if (delay > 0 && at > kEnd - delay) return kEnd;
  return std::max<std::int64_t>(at + delay, 0);
}

TimerOpOutcome schedule(Cycle& cycle, const Command& command, const TimerOp& op) {
  const auto old = timer_row(cycle, command, op.queue, op.key);
  store::TimerRow row;
  row.partition = op.partition;
  row.deliver_at = saturating_add(cycle.now, op.delay_us);
  row.payload = op.payload;
  row.raw = op.raw;
  row.encrypted = op.encrypted;
  row.transaction_id = op.transaction_id;
  row.message_id = op.message_id;
  row.producer_sub = op.producer_sub;
  row.created = old ? old->created : cycle.now;
  row.updated = cycle.now;
  using Status = TimerOpOutcome::Status;
  TimerOpOutcome out{old ? Status::rescheduled : Status::scheduled, op.transaction_id, op.message_id,
                     row.deliver_at};
  if (planted(PlantedBug::machine_timer_fires_early)) row.deliver_at -= row.deliver_at % kSecondUs;
  cycle.emit(TimerUpsert{command.tenant, op.queue, op.key, std::move(row)});
  return out;
}

TimerOpOutcome cancel(Cycle& cycle, const Command& command, const TimerOp& op) {
  using Status = TimerOpOutcome::Status;
  const auto old = timer_row(cycle, command, op.queue, op.key);
  if (!old) return {Status::absent, op.transaction_id, {}, 0};
  const bool kept = planted(PlantedBug::machine_cancelled_timer_fires) && old->due() <= cycle.now + kSecondUs;
  if (!kept) cycle.emit(TimerDelete{command.tenant, op.queue, op.key});
  return {Status::cancelled, old->transaction_id, {}, 0};
}

// One step of firing.
class Firing {
 public:
  Firing(Cycle& cycle, const Command& command, const TimerFireCommand& fire)
      : cycle_(cycle), command_(command), fire_(fire) {}

  TimerFireOutcome run() {
    find_due();
    PushOutcome pushed;
    if (!push_.batches.empty()) {
      Outcome planned = plan_push(cycle_, command_, push_);
      INVARIANT(planned.code.empty(), "a sealed push was refused: {}", planned.code);
      pushed = std::get<PushOutcome>(std::move(planned.body));
    }
    for (const Due& due : due_) settle(due, pushed.batches[due.batch].items[due.item]);
    return out_;
  }

 private:
  struct Due {
    const TimerFireCommand::One* timer = nullptr;
    store::TimerRow row;
    std::size_t batch = 0;  // of `push_`
    std::uint32_t item = 0;
  };

  // What is still pending as it was read, and the push of that alone.
  void find_due() {
    std::vector<std::vector<bool>> stays(fire_.push.batches.size());
    for (std::size_t b = 0; b < stays.size(); ++b) stays[b].resize(fire_.push.batches[b].items());
    for (const TimerFireCommand::One& timer : fire_.timers) {
      auto row = timer_row(cycle_, command_, timer.queue, timer.key);
      if (!row || row->message_id != timer.message_id || row->due() > cycle_.now) {
        ++out_.passed;
        continue;
      }
      stays[timer.batch][timer.item] = true;
      due_.push_back({&timer, *std::move(row), timer.batch, timer.item});
    }
    push_.batch_bytes_max = fire_.push.batch_bytes_max;
    std::vector<std::size_t> batch_at(stays.size());
    std::vector<std::vector<std::uint32_t>> item_at(stays.size());
    for (std::size_t b = 0; b < stays.size(); ++b) {
      batch_at[b] = push_.batches.size();
      item_at[b] = keep(fire_.push.batches[b], stays[b]);
    }
    for (Due& due : due_) {
      due.item = item_at[due.batch][due.item];
      due.batch = batch_at[due.batch];
    }
  }

  // Adds the items of `from` that stay, and gives their new places.
  std::vector<std::uint32_t> keep(const PushBatch& from, const std::vector<bool>& stays) {
    constexpr std::size_t kHashBytes = 16;
    std::vector<std::uint32_t> places(stays.size());
    if (std::find(stays.begin(), stays.end(), true) == stays.end()) return places;
    PushBatch& batch = push_.batches.emplace_back();
    batch.queue = from.queue;
    batch.partition = from.partition;
    batch.sealed = true;  // as it was when it was scheduled (TM-13)
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < stays.size(); ++i) {
      const std::uint32_t end = from.frame_ends[i];
      if (stays[i]) {
        places[i] = static_cast<std::uint32_t>(batch.items());
        batch.hashes.append(from.hashes, i * kHashBytes, kHashBytes);
        batch.frames.append(from.frames, begin, end - begin);
        batch.frame_ends.push_back(static_cast<std::uint32_t>(batch.frames.size()));
      }
      begin = end;
    }
    if (batch.items() == from.items()) batch.stored = from.stored;
    return places;
  }

  void settle(const Due& due, const PushItemOutcome& item) {
    if (item.status == PushItemOutcome::Status::too_large) {
      if (push_.batches[due.batch].items() == 1)
        return refuse(due, "the message is larger than an entry may be");
      // One of the others may be the one that is too large: whoever reads them again takes fewer.
      ++out_.passed;
      return;
    }
    if (item.first_in_batch && !has_window(due)) {
      // Only the window makes duplicates of timers (TM-7), and the push took the two for one message.
      ++out_.passed;
      return;
    }
    ++(item.status == PushItemOutcome::Status::queued ? out_.fired : out_.duplicates);
    if (planted(PlantedBug::machine_timer_fires_again) && due.item > 0) return;
    remove(due);
  }

  bool has_window(const Due& due) const {
    const auto queue = must(queue_row(cycle_.view, command_.tenant, due.timer->queue));
    return queue && queue->dedup_window_seconds > 0;
  }

  void refuse(const Due& due, std::string error) {
    const std::uint32_t attempts = due.row.attempts + 1;
    if (attempts >= fire_.attempts_max && due.timer->letter) return file(due, attempts, std::move(error));
    std::int64_t delay = fire_.backoff_max_us;
    // min · 2^attempts, those before this one, as far as it stays below the maximum: the first wait is min.
    if (due.row.attempts < 62 && fire_.backoff_min_us <= (fire_.backoff_max_us >> due.row.attempts))
      delay = fire_.backoff_min_us << due.row.attempts;
    cycle_.emit(TimerBackoff{command_.tenant, due.timer->queue, due.timer->key,
                             saturating_add(cycle_.now, delay), attempts, std::move(error), cycle_.now});
    ++out_.refused;
  }

  void file(const Due& due, std::uint32_t attempts, std::string error) {
    store::DeadLetterRow letter;
    const std::size_t ordinal = fire_.push.batches.size() + out_.filed;  // behind those of the push
    letter.pid = ensure_partition(cycle_, command_, due.timer->queue, due.row.partition, ordinal);
    letter.group = kTimerGroup;
    letter.offset = -1;
    letter.message_id = due.row.message_id;
    letter.transaction_id = due.row.transaction_id;
    letter.payload = *due.timer->letter;
    letter.error = std::move(error);
    letter.retry_count = attempts;
    letter.failed_at = cycle_.now;
    const Uuid id = derived_uuid(command_.request_id, "timer letter", out_.filed);
    cycle_.emit(DlqInsert{id, command_.tenant, due.timer->queue, std::move(letter)});
    remove(due);
    ++out_.filed;
  }

  void remove(const Due& due) { cycle_.emit(TimerDelete{command_.tenant, due.timer->queue, due.timer->key}); }

  Cycle& cycle_;
  const Command& command_;
  const TimerFireCommand& fire_;
  TimerFireOutcome out_;
  std::vector<Due> due_;
  PushCommand push_;
};

}  // namespace

Outcome plan_timers(Cycle& cycle, const Command& command, const TimersCommand& timers) {
  for (const TimerOp& op : timers.ops) {
    if (op.kind != TimerOp::Kind::schedule || op.encrypted) continue;
    const auto queue = must(queue_row(cycle.view, command.tenant, op.queue));
    if (queue && queue->encryption_enabled)
      return {"encryption_required",
              "queue " + op.queue + " is encrypted, and the payload is not: the node has no encryption key",
              {}};
  }
  TimersOutcome out;
  out.ops.reserve(timers.ops.size());
  for (const TimerOp& op : timers.ops)
    out.ops.push_back(op.kind == TimerOp::Kind::schedule ? schedule(cycle, command, op)
                                                         : cancel(cycle, command, op));
  return {{}, {}, std::move(out)};
}

TimerFireOutcome plan_timer_fire(Cycle& cycle, const Command& command, const TimerFireCommand& fire) {
  return Firing(cycle, command, fire).run();
}

}  // namespace queen::machine::detail
