// The queues of an engine, and the pops that wait for them. Everything but the executor's timer runs with
// `mutex` held; answers are collected in `ready` and run after it was let go.
#pragma once

#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ephemeral/detail/ring.h"
#include "ephemeral/engine.h"

namespace queen::ephemeral {

namespace detail {

struct Waiter {
  std::uint64_t ticket = 0;  // pops are served in this order
  PopRequest request;
  PopDone done;
  std::optional<std::int64_t> window_until;  // the window of the messages that it could take (EP-11)
};
using Waiters = std::list<Waiter>;
struct GroupWaiters {
  Waiters everywhere;
  std::map<std::string, Waiters, std::less<>> pinned;  // by partition
  bool empty() const { return everywhere.empty() && pinned.empty(); }
};

struct Queue {
  QueueName name;
  bool declared = false;
  Declaration options;  // effective
  LeaseSet leases;      // outlives the rings
  std::map<std::string, std::unique_ptr<Ring>, std::less<>> rings;
  std::set<std::pair<std::uint64_t, Ring*>> heads;  // the oldest message of each ring, by Stored::order
  std::set<std::pair<std::int64_t, Ring*>> spare;   // empty rings, by when they became so
  std::map<Ring*, std::int64_t> spare_since;
  // Seen, at most kGroupsMax: they get a cursor in every partition to come. True: in every one there is, too.
  std::map<std::string, bool, std::less<>> groups;
  std::int64_t bytes = 0, held = 0;
  std::uint64_t length = 0;
  Drops drops;
  std::map<std::string, GroupWaiters, std::less<>> waiting;  // by group
  std::set<std::pair<std::int64_t, std::uint64_t>> wakes;    // (when, ticket): ends of waits and windows
  std::int64_t used_at = 0;
  std::optional<std::int64_t> due_at;
};

}  // namespace detail

struct Engine::State : std::enable_shared_from_this<Engine::State> {
  using Queue = detail::Queue;
  using Ring = detail::Ring;
  static constexpr std::size_t kGroupsMax = 256;
  struct Tenant {
    std::int64_t bytes = 0, queues = 0;
  };
  struct Place {
    Queue* queue = nullptr;
    detail::Waiters* list = nullptr;
    detail::Waiters::iterator at;
  };
  using Ready = std::vector<UniqueFunction<void()>>;

  State(Settings with, Executor& on, Random& from, Lookup look_up)
      : settings(with), executor(on), random(from), lookup(std::move(look_up)) {}

  const Settings settings;
  Executor& executor;
  Random& random;
  const Lookup lookup;

  std::mutex mutex;                                                   // guards everything below
  std::map<std::string, std::unique_ptr<Queue>, std::less<>> queues;  // by tenant and name
  std::map<std::string, Tenant, std::less<>> tenants;
  std::unordered_map<std::uint64_t, Place> places;  // of parked pops, by ticket
  std::set<std::pair<std::int64_t, Queue*>> due;
  std::optional<std::int64_t> armed_at;
  std::int64_t held = 0;
  std::uint64_t order = 0, tickets = 0;
  std::uint64_t declarations = 0;  // changes of them, so that a look-up knows that it is old
  Drops drops;
  bool released = false;
  Ready ready;

  std::int64_t now() { return executor.clock().mono_us(); }
  static std::string key_of(std::string_view tenant, std::string_view queue) {
    return std::string(tenant) + std::string(queue);
  }

  // state.cc: queues, memory, what is due.
  Queue* find(const QueueName& name);
  // Takes and gives back `lock` while it looks the declaration up.
  tl::expected<Queue*, Refused> find_or_make(std::unique_lock<std::mutex>& lock, const QueueName& name,
                                             const TenantMax& max);
  Queue& make(const QueueName& name, const std::optional<Declaration>& declared);
  void erase(Queue& queue);
  void hold(Queue& queue, std::int64_t bytes);
  Ring& ring_of(Queue& queue, std::string_view partition);
  // A pop names the group: of one partition, or of them all.
  void meet_group(Queue& queue, const PopRequest& request);
  detail::Cursor& cursor_of(Queue& queue, Ring& ring, std::string_view group);
  void append(Queue& queue, Ring& ring, detail::Payload payload, std::int64_t now_us);
  void drop(Queue& queue, Ring& ring, bool skip);
  void free_passed(Queue& queue, Ring& ring);
  void count_retry_drop(Queue& queue);
  // What time has done to it: messages too old, leases that ran out.
  void freshen(Queue& queue, std::int64_t now_us);
  // After anything was done with it.
  void reschedule(Queue& queue);
  void run_due();

  // waiting.cc: parked pops.
  std::vector<Message> take(Queue& queue, const PopRequest& request, std::int64_t now_us, Ring* only);
  std::uint64_t available(Queue& queue, const PopRequest& request, Ring* only);
  void park(Queue& queue, PopRequest request, PopDone done, std::uint64_t ticket);
  // Serves pops that wait for `changed`, or for any partition when it is null.
  void serve(Queue& queue, Ring* changed, std::int64_t now_us);
  void serve_group(Queue& queue, detail::GroupWaiters& group, Ring* changed, std::int64_t now_us);
  bool try_serve(Queue& queue, detail::Waiter& waiter, Ring* changed, std::int64_t now_us);
  void answer(const Place& place, std::vector<Message> messages);
  void unpark(const Place& place);
  void prune(Queue& queue);
  void wake(Queue& queue, std::int64_t now_us);

 private:
  void arm();
  bool is_idle(const Queue& queue, std::int64_t now_us) const;
  void drop_spare(Queue& queue, std::int64_t now_us);
};

}  // namespace queen::ephemeral
