// Random histories of timers (cluster.md W10): each fires at most once, not before it is due, never when it
// was cancelled or scheduled anew before; nothing that is pending is lost, whatever restarts come in between.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <map>

#include "broker/timer_due.h"
#include "disk/ram_disk.h"
#include "mini_node.h"
#include "model.h"
#include "store/keys.h"

namespace queen::history {

struct TimerStep {
  int kind = 0, key = 0, delay = 0, more = 0;
};
std::ostream& operator<<(std::ostream& out, const TimerStep& step) {
  constexpr std::array kNames = {"schedule", "cancel", "fire", "read", "submit", "wait", "restart"};
  return out << fmt::format("{}({},{},{})", kNames.at(static_cast<std::size_t>(step.kind)), step.key,
                            step.delay, step.more);
}

}  // namespace queen::history

namespace rc {

template <>
struct Arbitrary<queen::history::TimerStep> {
  static Gen<queen::history::TimerStep> arbitrary() {
    using queen::history::TimerStep;
    const auto kind = gen::weightedElement<int>({{8, 0}, {3, 1}, {4, 2}, {2, 3}, {2, 4}, {4, 5}, {1, 6}});
    return gen::build<TimerStep>(
        gen::set(&TimerStep::kind, kind), gen::set(&TimerStep::key, gen::inRange(0, 5)),
        gen::set(&TimerStep::delay, gen::inRange(-1, 6)), gen::set(&TimerStep::more, gen::inRange(0, 8)));
  }
};

}  // namespace rc

namespace queen::history {
namespace {

using machine::TimerOp;
using Status = machine::TimerOpOutcome::Status;

constexpr std::int64_t kUnitUs = 200'000;

class TimerHistory {
 public:
  TimerHistory() : node_(disk_, clock_, {}) {}

  std::string run(const std::vector<TimerStep>& steps) {
    clock_.advance(1'000'000'000'000);
    if (auto done = node_.open(); !done) return done.error().what;
    for (const TimerStep& each : steps)
      if (auto text = step(each); !text.empty()) return text;
    // Everything that is pending fires in the end.
    clock_.advance(10 * kUnitUs);
    for (int i = 0; i < 50 && !pending_.empty(); ++i) {
      read(3);
      if (auto text = submit_read(); !text.empty()) return text;
    }
    if (!pending_.empty()) return fmt::format("{} timers never fired", pending_.size());
    if (auto text = restart(steps.size() % 2 == 0); !text.empty()) return text;
    return compare();
  }

 private:
  struct Timer {
    std::uint32_t number = 0;
    std::int64_t due = 0;
  };

  std::string step(const TimerStep& step) {
    switch (step.kind) {
      case 0:
        return schedule(step);
      case 1:
        return cancel(step);
      case 2:
        read(1 + static_cast<std::size_t>(step.more) % 4);
        return submit_read();
      case 3:
        read(1 + static_cast<std::size_t>(step.more) % 4);
        return {};
      case 4:
        return submit_read();
      case 5:
        clock_.advance(kUnitUs * (1 + step.more % 4));
        return {};
      default:
        return restart(step.more % 2 == 0);
    }
  }

  std::string schedule(const TimerStep& step) {
    TimerOp op;
    op.queue = "q";
    op.key = fmt::format("k{}", step.key);
    op.partition = fmt::format("p{}", step.more % 2);
    const std::uint32_t number = ++numbers_;
    op.transaction_id = crash::transaction_id(number);
    op.payload = crash::message_text(number);
    op.delay_us = step.delay * kUnitUs;
    op.message_id = uuid();
    machine::TimersCommand body;
    body.ops.push_back(op);
    machine::Outcome outcome;
    if (auto text = submit(body, outcome); !text.empty()) return text;
    const auto& out = std::get<machine::TimersOutcome>(outcome.body).ops.at(0);
    const bool again = pending_.contains(op.key);
    if (out.status != (again ? Status::rescheduled : Status::scheduled)) return op.key + ": another status";
    pending_[op.key] = {number, out.deliver_at};
    return {};
  }

  std::string cancel(const TimerStep& step) {
    TimerOp op;
    op.kind = TimerOp::Kind::cancel;
    op.queue = "q";
    op.key = fmt::format("k{}", step.key);
    machine::TimersCommand body;
    body.ops.push_back(op);
    machine::Outcome outcome;
    if (auto text = submit(body, outcome); !text.empty()) return text;
    const bool was = pending_.erase(op.key) > 0;
    const auto& out = std::get<machine::TimersOutcome>(outcome.body).ops.at(0);
    return out.status == (was ? Status::cancelled : Status::absent) ? "" : op.key + ": another cancel";
  }

  void read(std::size_t most) {
    broker::TimerSettings settings;
    settings.fire_batch = most;
    auto due = broker::due_timers(node_.store(), clock_.wall_us(), settings, 96ULL << 20);
    read_.clear();
    for (auto& one : due.tenants) read_.push_back(std::move(one.fire));
  }

  // What was read, perhaps long ago: it may be submitted more than once.
  std::string submit_read() {
    for (const auto& fire : read_) {
      machine::Outcome outcome;
      std::int64_t now = 0;
      if (auto text = submit(fire, outcome, &now); !text.empty()) return text;
      std::size_t fired = 0;
      for (const auto& timer : fire.timers) {
        const auto found = pending_.find(timer.key);
        const auto& batch = fire.push.batches.at(timer.batch);
        const BytesView hash = BytesView(batch.hashes).substr(timer.item * sizeof(Hash128), sizeof(Hash128));
        if (found == pending_.end() || xxh3_128(crash::transaction_id(found->second.number)).view() != hash)
          continue;
        if (found->second.due > now) return timer.key + " fired too early";
        messages_[batch.partition].push_back(found->second.number);
        pending_.erase(found);
        ++fired;
      }
      const auto& out = std::get<machine::TimerFireOutcome>(outcome.body);
      if (out.fired != fired || out.passed != fire.timers.size() - fired)
        return fmt::format("{} fired instead of {}", out.fired, fired);
    }
    return {};
  }

  std::string restart(bool checkpoint) {
    if (checkpoint) node_.checkpoint();
    node_.kill();
    if (auto done = node_.open(); !done) return "boot refused: " + done.error().what;
    return {};
  }

  // The log holds what fired, once each and in that order.
  std::string compare() {
    for (const auto& [partition, numbers] : messages_) {
      const auto bytes = node_.store().get(store::Keyspace::partitions_by_key,
                                           store::partition_by_key(kDefaultTenant, "q", partition));
      if (!bytes) return partition + " is not there";
      const Pid pid = store::decode_pid_row(*bytes).value();
      const LogId log = node_.logs().layout().of_partition(qlog::Layout::queue_id(kDefaultTenant, "q"), pid);
      std::vector<std::uint32_t> found;
      while (found.size() < numbers.size()) {
        const auto batch = node_.logs().read(log, pid, found.size(), {numbers.size(), 1000, 1U << 20});
        if (!batch) return batch.error().what;
        if (batch->messages.empty()) return partition + " ends early";
        for (const auto& message : batch->messages) {
          const std::uint32_t number = numbers.at(found.size());
          if (message.frame.transaction_id != crash::transaction_id(number))
            return partition + " has another order";
          found.push_back(number);
        }
      }
    }
    return node_.store().rows(store::Keyspace::timers_due) == 0 ? "" : "due rows are left";
  }

  template <class Body>
  std::string submit(Body body, machine::Outcome& outcome, std::int64_t* now = nullptr) {
    const auto planned = node_.plan({machine::Command{std::string(kDefaultTenant), uuid(), std::move(body)}});
    outcome = planned.outcomes.at(0);
    if (!outcome.code.empty()) return outcome.code;
    if (now != nullptr) *now = planned.entry ? planned.entry->now_us : clock_.wall_us();
    if (planned.index == 0) return {};
    if (auto done = node_.write_and_sync({planned}); !done) return done.error().what;
    if (auto done = node_.apply({planned}); !done) return done.error().what;
    return {};
  }

  Uuid uuid() {
    Uuid id;
    const std::uint64_t number = ++uuids_;
    for (std::size_t i = 0; i < 8; ++i) id.bytes[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
    return id;
  }

  ManualClock clock_;
  disk::RamDisk disk_;
  crash::MiniNode node_;
  std::map<std::string, Timer> pending_;
  std::map<std::string, std::vector<std::uint32_t>> messages_;  // by partition
  std::vector<machine::TimerFireCommand> read_;
  std::uint64_t uuids_ = 0;
  std::uint32_t numbers_ = 0;
};

TEST(Timers, FireAtMostOnceNotEarlyAndNeverAfterACancelOverRestarts) {
  const bool held = rc::check("every timer that was answered fires once, or was cancelled", [] {
    const auto steps = *rc::gen::container<std::vector<TimerStep>>(rc::gen::arbitrary<TimerStep>());
    const std::string wrong = TimerHistory().run(steps);
    if (!wrong.empty()) RC_FAIL(wrong);
  });
  EXPECT_TRUE(held);
}

}  // namespace
}  // namespace queen::history
