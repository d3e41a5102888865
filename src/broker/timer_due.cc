#include "broker/timer_due.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/hash.h"
#include "base/text.h"
#include "broker/store_steps.h"
#include "qlog/record.h"

namespace queen::broker {
namespace {

using store::Keyspace;

// What a frame, its hash and its place in a command take beside transactionId, subject and payload.
constexpr std::uint64_t kTimerWeight = 32 + sizeof(Hash128) + machine::PushBatch::kItemWeight;

// Sorts timers into the commands of their tenants and the batches of their partitions.
class Step {
 public:
  Step(const TimerSettings& settings, std::uint64_t entry_bytes_max, const PayloadOpener& opener)
      : settings_(settings), entry_bytes_max_(entry_bytes_max), opener_(opener) {}

  // False when the timer has to wait for the next step.
  bool add(store::TimerKey name, const store::TimerRow& row) {
    std::string message = timer_message(row);
    const std::uint64_t weight = kTimerWeight + message.size() + row.transaction_id.size() +
                                 row.producer_sub.value_or(std::string()).size();
    const std::uint64_t most = std::min(settings_.fire_bytes_max, entry_bytes_max_);
    if (count_ > 0 && weight_ + weight > most) return false;
    weight_ += weight;
    ++count_;
    machine::TimerFireCommand& fire = command_of(name.tenant);
    const std::size_t batch = batch_of(fire, name, row.partition);
    const auto item = static_cast<std::uint32_t>(fire.push.batches[batch].items());
    append(fire.push.batches[batch], row, message);
    auto& timer = fire.timers.emplace_back();
    timer.queue = std::move(name.queue);
    timer.key = std::move(name.timer);
    timer.message_id = row.message_id;
    timer.batch = batch;
    timer.item = item;
    if (row.attempts + 1 >= settings_.attempts_max) timer.letter = letter_of(row, std::move(message));
    return true;
  }
  bool full() const { return count_ >= settings_.fire_batch; }
  DueTimers take() { return std::move(out_); }

 private:
  Bytes letter_of(const store::TimerRow& row, std::string message) const {
    auto opened = row.encrypted ? opener_.open_text(message) : std::nullopt;
    return opened ? *std::move(opened) : Bytes(std::move(message));
  }

  machine::TimerFireCommand& command_of(const std::string& tenant) {
    const auto [at, fresh] = tenants_.try_emplace(tenant, out_.tenants.size());
    if (!fresh) return out_.tenants[at->second].fire;
    machine::TimerFireCommand& fire = out_.tenants.emplace_back(tenant, machine::TimerFireCommand{}).fire;
    fire.push.batch_bytes_max = entry_bytes_max_;
    fire.backoff_min_us = settings_.backoff_min_us;
    fire.backoff_max_us = settings_.backoff_max_us;
    fire.attempts_max = settings_.attempts_max;
    return fire;
  }

  std::size_t batch_of(machine::TimerFireCommand& fire, const store::TimerKey& name,
                       const std::string& partition) {
    auto& batches = fire.push.batches;
    const auto [at, fresh] = batches_.try_emplace({name.tenant, name.queue, partition}, batches.size());
    if (fresh) {
      machine::PushBatch& batch = batches.emplace_back();
      batch.queue = name.queue;
      batch.partition = partition;
      batch.sealed = true;  // as it was when it was scheduled (TM-13)
    }
    return at->second;
  }

  static void append(machine::PushBatch& batch, const store::TimerRow& row, std::string_view message) {
    qlog::MessageFrame frame;
    frame.encrypted = row.encrypted;
    frame.null_payload = !row.raw && message == "null";
    frame.message_id = row.message_id;
    frame.transaction_id = row.transaction_id;
    if (row.producer_sub) frame.producer_sub = *row.producer_sub;
    if (!frame.null_payload) frame.payload = message;
    qlog::append_frame(batch.frames, frame);
    batch.hashes += xxh3_128(row.transaction_id).view();
    batch.frame_ends.push_back(static_cast<std::uint32_t>(batch.frames.size()));
  }

  const TimerSettings& settings_;
  const std::uint64_t entry_bytes_max_;
  const PayloadOpener& opener_;
  DueTimers out_;
  std::map<std::string, std::size_t> tenants_;
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> batches_;
  std::uint64_t weight_ = machine::PushBatch::kWeight;
  std::size_t count_ = 0;
};

}  // namespace

std::string timer_message(const store::TimerRow& row) {
  return row.raw ? raw_message(row.payload) : std::string(row.payload);
}

std::string raw_message(BytesView payload) {
  return R"({"_raw_b64":")" + base64(payload) + "\"}";
}

DueTimers due_timers(const store::Store& store, std::int64_t now_us, const TimerSettings& settings,
                     std::uint64_t entry_bytes_max, const PayloadOpener& opener) {
  Step step(settings, entry_bytes_max, opener);
  const auto gate = store.read_gate();
  store.scan(Keyspace::timers_due, {}, {}, [&](BytesView key, BytesView) {
    auto due = store::parse_timer_due_key(key);
    INVARIANT(due.has_value(), "a timers_due key does not parse");
    if (due->due > now_us || step.full()) return false;
    store::TimerKey& name = due->timer;
    const auto row = store.get(Keyspace::timers, store::timer_key(name.tenant, name.queue, name.timer));
    INVARIANT(row.has_value(), "a timers_due row has no timer");
    return step.add(std::move(name), decode_row<store::TimerRow>(*row));
  });
  return step.take();
}

}  // namespace queen::broker
