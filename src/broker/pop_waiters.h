// Pops that wait for messages, by queue and group, and what wakes them (api-messaging.md 4.3).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "broker/broker.h"

namespace queen::broker {

struct QueueName {
  std::string tenant, queue;
  auto operator<=>(const QueueName&) const = default;
};

// One pop on its way. What changes after it was made is guarded by PopWaiters' mutex.
struct PopCall {
  std::uint64_t id = 0;
  machine::Command command;  // a PopCommand
  QueueName name;
  std::string group;
  bool pinned = false;
  bool wait = false;
  std::int64_t stop_claiming_at = 0;  // monotonic µs (W-2)
  UniqueFunction<void(Answer<PopAnswer>)> done;
  int cold_rounds = 0;  // times the log was asked since it last parked

  bool parked = false;
  bool cancelled = false;
  std::uint64_t turn = 0;  // raised whenever it leaves the park: a timer of an earlier turn means nothing
};
using PopPtr = std::shared_ptr<PopCall>;

// Thread-safe. Gives pops back to the caller instead of acting on them, so that no lock is held while they
// run.
class PopWaiters {
 public:
  // Counts the pop in until leave(); so appends to its queue are counted too.
  void enter(const PopPtr& pop);
  void leave(const PopPtr& pop);
  // How often the queue was woken. Ask before the claim is tried.
  std::uint64_t wakes(const QueueName& name) const;
  // Parks the pop unless the queue was woken since `wakes_before` (then try again), or it was cancelled or
  // everything was released (then answer it empty).
  enum class Park : std::uint8_t { parked, try_again, over };
  Park park(const PopPtr& pop, std::uint64_t wakes_before, std::uint64_t& turn);
  // Takes it out of the park if it is still there in `turn`.
  bool unpark(const PopPtr& pop, std::uint64_t turn);
  // Something of the queue may be deliverable: the pops to try. Of each group at most kWokenMax; whoever of
  // them claims something calls wake_next().
  std::vector<PopPtr> wake(const QueueName& name);
  std::vector<PopPtr> wake_next(const QueueName& name, const std::string& group);
  bool anyone_parked(const QueueName& name) const;
  // Queues with parked pops, and pops on their way or parked in all.
  std::vector<ParkedPops> parked() const;
  std::size_t waiting() const;
  // True when the caller shall wake the queue at `mono_us`: nobody is to do so yet.
  bool arm_wake(const QueueName& name, std::int64_t mono_us);
  void disarm_wake(const QueueName& name, std::int64_t mono_us);

  // The pop if it was parked and now is the caller's to answer.
  PopPtr cancel(std::uint64_t id);
  bool cancelled(const PopPtr& pop) const;
  // All parked pops; from now on nothing parks.
  std::vector<PopPtr> release_all();

 private:
  static constexpr std::size_t kWokenMax = 8;
  struct Queue {
    std::uint64_t wakes = 0;
    std::size_t pops = 0;
    std::map<std::string, std::deque<PopPtr>> groups;
    std::deque<PopPtr> pinned;
    std::set<std::int64_t> armed;
  };
  static void take(std::deque<PopPtr>& from, std::size_t count, std::vector<PopPtr>& to);
  void remove(const PopPtr& pop);

  mutable std::mutex mutex_;
  std::map<QueueName, Queue> queues_;  // those with a pop on its way
  std::map<std::uint64_t, PopPtr> by_id_;
  bool released_ = false;
};

}  // namespace queen::broker
