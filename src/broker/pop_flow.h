// A pop from the call to the answer: claim, park, claim again, read, hand back.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/pool.h"
#include "broker/core.h"
#include "broker/pop_waiters.h"
#include "broker/reads.h"

namespace queen::broker {

// Thread-safe.
class PopFlow {
 public:
  PopFlow(Core& core, Reads& reads, Pool& readers, Executor& timers, Clock& clock, Random& random)
      : core_(core), reads_(reads), readers_(readers), timers_(timers), clock_(clock), random_(random) {}

  std::uint64_t pop(machine::Command command, bool wait, std::int64_t deadline_mono_us,
                    UniqueFunction<void(Answer<PopAnswer>)> done);
  void cancel(std::uint64_t id);
  void hand_back(const std::string& tenant, const std::string& group, Uuid lease_id, const PopAnswer& answer);
  void release_parked();
  // Something of the queue may be deliverable now, or will be at that stamp.
  void wake(const QueueName& name);
  void wake_at(const QueueName& name, std::int64_t stamp_us);
  // Claims that began with a message whose append row has left RAM (CE-8).
  std::uint64_t cold_claims() const { return cold_claims_.load(std::memory_order_relaxed); }
  std::vector<ParkedPops> parked() const { return waiters_.parked(); }
  std::size_t waiting() const { return waiters_.waiting(); }
  // Leases that ran out, by group: counted when somebody claims the partition next (HD-38).
  std::vector<Health::ExpiredLeases> expired_leases() const;

 private:
  void attempt(const PopPtr& pop);
  void on_outcome(const PopPtr& pop, std::uint64_t wakes_before, Answer<machine::Outcome> outcome);
  void park_or_end(const PopPtr& pop, std::uint64_t wakes_before, const machine::PopOutcome& outcome);
  void ask_log(const PopPtr& pop, machine::PopOutcome outcome);
  void deliver(const PopPtr& pop, machine::PopOutcome outcome);
  static machine::HandBackCommand ends_of(const machine::PopCommand& pop, const PopAnswer& answer);
  void hand_out(const PopPtr& pop, PopAnswer answer, const Answer<machine::Outcome>& outcome);
  void count_claims(const PopCall& pop, const machine::PopOutcome& outcome);
  std::int64_t mono_at(std::int64_t stamp_us) const;
  void finish(const PopPtr& pop, Answer<PopAnswer> answer);
  void wake_next(const PopCall& gone);
  static PopAnswer empty_answer(const machine::PopOutcome& outcome);

  Core& core_;
  Reads& reads_;
  Pool& readers_;
  Executor& timers_;
  Clock& clock_;
  Random& random_;
  PopWaiters waiters_;
  std::atomic<std::uint64_t> next_id_{1};
  std::atomic<std::uint64_t> cold_claims_{0};
  mutable std::mutex expired_mutex_;  // guards expired_
  std::map<std::pair<QueueName, std::string>, std::uint64_t> expired_;
};

}  // namespace queen::broker
