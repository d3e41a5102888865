#include "timer_book.h"

#include <algorithm>

namespace queen::sim {

void TimerBook::sending(const TimerName& name, const std::string& transaction_id) {
  Timer& timer = timers_[name];
  ++timer.open;
  if (!transaction_id.empty()) timer.sent.insert(transaction_id);
}

void TimerBook::scheduled(const TimerName& name, const TimerSet& set, CallTimes times) {
  Timer& timer = timers_[name];
  --timer.open;
  timer.sets.push_back(set);
  if (set.stamp_us <= times.before_us || set.stamp_us > times.after_us)
    story_.violate("timers count from log time", "{}/{} {}: stamped {} outside ({}, {}]", name.queue,
                   name.key, set.transaction_id, set.stamp_us, times.before_us, times.after_us);
}

void TimerBook::cancelled(const TimerName& name, const std::string& transaction_id, CallTimes times) {
  Timer& timer = timers_[name];
  --timer.open;
  if (!timer.sent.contains(transaction_id))
    story_.violate("nothing that nobody scheduled", "{}/{}: cancelled {}", name.queue, name.key,
                   transaction_id);
  for (const Cancel& other : timer.cancels)
    if (other.transaction_id == transaction_id)
      story_.violate("a timer ends once", "{}/{} {} cancelled twice", name.queue, name.key, transaction_id);
  timer.cancels.push_back({transaction_id, times});
}

void TimerBook::absent(const TimerName& name, CallTimes times) {
  Timer& timer = timers_[name];
  --timer.open;
  timer.absences.push_back(times);
}

void TimerBook::refused(const TimerName& name, const std::string& transaction_id) {
  Timer& timer = timers_[name];
  --timer.open;
  if (!transaction_id.empty()) timer.refused.insert(transaction_id);
}

void TimerBook::check(const std::map<PartitionName, PartitionRead>& logs) {
  FiredById fired;
  for (const auto& [where, log] : logs) {
    for (const auto& record : log.records) {
      const auto [at, fresh] = fired.try_emplace(record.transaction_id, Fired{where, record.ts_us});
      if (!fresh)
        story_.violate("timers fire once", "{} in {}/{} and in {}/{}", record.transaction_id,
                       at->second.where.queue, at->second.where.partition, where.queue, where.partition);
    }
  }
  for (const auto& [name, timer] : timers_) check_timer(name, timer, fired);
}

void TimerBook::check_timer(const TimerName& name, const Timer& timer, const FiredById& fired) {
  for (const auto& transaction_id : timer.refused)
    if (fired.contains(transaction_id))
      story_.violate("what is refused does not take place", "{}/{} {} fired", name.queue, name.key,
                     transaction_id);
  for (const TimerSet& set : timer.sets) check_set(name, timer, set, fired);
  check_cancels(name, timer, fired);
}

void TimerBook::check_set(const TimerName& name, const Timer& timer, const TimerSet& set,
                          const FiredById& fired) {
  const auto it = fired.find(set.transaction_id);
  if (set.again && !may_replace(timer, set, fired))
    story_.violate("rescheduled means pending", "{}/{} {} stamped {}: nothing was", name.queue, name.key,
                   set.transaction_id, set.stamp_us);
  if (it != fired.end()) {
    const Fired& shot = it->second;
    if (shot.ts_us < set.deliver_at)
      story_.violate("not before its time", "{}/{} {} for {} fired at {}", name.queue, name.key,
                     set.transaction_id, set.deliver_at, shot.ts_us);
    if (shot.where != PartitionName{name.queue, set.partition})
      story_.violate("timers fire where they should", "{}/{} {} in {}/{}", name.queue, name.key,
                     set.transaction_id, shot.where.queue, shot.where.partition);
    for (const TimerSet& other : timer.sets)
      if (other.stamp_us > set.stamp_us && other.stamp_us < shot.ts_us)
        story_.violate("a reschedule replaces", "{}/{} {} fired at {}, replaced by {} at {}", name.queue,
                       name.key, set.transaction_id, shot.ts_us, other.transaction_id, other.stamp_us);
    return;
  }
  const bool replaced = std::any_of(timer.sets.begin(), timer.sets.end(), [&](const TimerSet& other) {
    return other.stamp_us >= set.stamp_us && other.again && other.transaction_id != set.transaction_id;
  });
  const bool cancelled = std::any_of(timer.cancels.begin(), timer.cancels.end(), [&](const Cancel& cancel) {
    return cancel.transaction_id == set.transaction_id;
  });
  if (!replaced && !cancelled && timer.open == 0)
    story_.violate("timers fire", "{}/{} {} for {} never did", name.queue, name.key, set.transaction_id,
                   set.deliver_at);
}

// Whether something can have been pending when `set` took place.
bool TimerBook::may_replace(const Timer& timer, const TimerSet& set, const FiredById& fired) const {
  if (timer.open > 0) return true;
  return std::any_of(timer.sets.begin(), timer.sets.end(), [&](const TimerSet& other) {
    if (other.transaction_id == set.transaction_id || other.stamp_us > set.stamp_us) return false;
    const auto shot = fired.find(other.transaction_id);
    if (shot != fired.end()) return false;  // what fires was not replaced
    return std::none_of(timer.cancels.begin(), timer.cancels.end(),
                        [&](const Cancel& cancel) { return cancel.transaction_id == other.transaction_id; });
  });
}

void TimerBook::check_cancels(const TimerName& name, const Timer& timer, const FiredById& fired) {
  for (const Cancel& cancel : timer.cancels) {
    if (fired.contains(cancel.transaction_id))
      story_.violate("cancelled timers never fire", "{}/{} {}", name.queue, name.key, cancel.transaction_id);
    for (const TimerSet& set : timer.sets) {
      if (set.transaction_id != cancel.transaction_id) continue;
      for (const TimerSet& other : timer.sets)
        if (other.stamp_us > set.stamp_us && other.stamp_us < cancel.times.before_us)
          story_.violate("a reschedule replaces", "{}/{} {} cancelled after {}, replaced by {} at {}",
                         name.queue, name.key, set.transaction_id, cancel.times.before_us,
                         other.transaction_id, other.stamp_us);
    }
  }
  for (const CallTimes& absence : timer.absences) {
    for (const TimerSet& set : timer.sets) {
      const auto shot = fired.find(set.transaction_id);
      if (shot != fired.end() && set.stamp_us <= absence.before_us && shot->second.ts_us > absence.after_us)
        story_.violate("absent means not pending", "{}/{} {} of {} in ({}, {}], fired at {}", name.queue,
                       name.key, set.transaction_id, set.stamp_us, absence.before_us, absence.after_us,
                       shot->second.ts_us);
    }
  }
}

}  // namespace queen::sim
