// The replicator of a single node. The writer takes whatever waits (GC-1), writes it, and hands it to the
// syncer, so that one group is written while the one before it is synced (GC-6).
#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>

#include "base/invariant.h"
#include "base/planted_bugs.h"
#include "replica/replicator.h"

namespace queen::replica {
namespace {

// A full volume refuses again and again; one line in so many says so.
constexpr std::uint64_t kLossesPerLine = 1000;
// Groups that are written and wait for the syncer: one that it takes next, and one written meanwhile.
constexpr std::size_t kWrittenMax = 2;
constexpr std::int64_t kBusyWaitUs = 20'000;
// Two seconds of them, all groups together: a stop has an end, and what clients close meanwhile may be
// enough.
constexpr int kBusyTriesAtStop = 100;

using Proposals = std::vector<std::shared_ptr<Proposal>>;

struct Group {
  Proposals proposals;
  qlog::WrittenGroup written;
};

class LocalReplicator final : public Replicator {
 public:
  LocalReplicator(qlog::QueueLogs& logs, EntryIndex next, LocalSettings settings, LocalThreads threads,
                  Events events, Logger log)
      : logs_(logs),
        settings_(settings),
        threads_(threads),
        events_(std::move(events)),
        log_(std::move(log)),
        next_(next.value) {
    committed_ = next.value - 1;
  }
  ~LocalReplicator() override { stop(); }

  Result<EntryIndex> propose(std::shared_ptr<Proposal> proposal) override {
    std::lock_guard lock(mutex_);
    if (stopped_ || stopping_) return Error{Errc::unavailable, "the node takes no more writes"};
    if (lost_) return Error{Errc::full, "earlier entries were lost to a full disk"};
    proposal->index = EntryIndex{next_++};
    const EntryIndex index = proposal->index;
    waiting_.push_back(std::move(proposal));
    wake_writer();
    return index;
  }

  EntryIndex next_index() const override {
    std::lock_guard lock(mutex_);
    return EntryIndex{next_};
  }

  void accept_loss() override {
    std::lock_guard lock(mutex_);
    // Indexes go back only once the planner has forgotten what it planned on top of the lost entries.
    if (lost_) next_ = lost_first_;
    lost_ = false;
  }

  Role role() const override {
    std::lock_guard lock(mutex_);
    return stopped_ ? Role::stopped : Role::leader;
  }
  std::uint64_t term() const override { return 0; }
  EntryIndex committed() const override { return EntryIndex{committed_.load(std::memory_order_acquire)}; }

  // One node: whatever was committed anywhere was committed here.
  void barrier(UniqueFunction<void(Status)> done) override { done(Status{}); }
  std::vector<Member> members() const override { return {Member{1, "", true}}; }

  void stop_waiting() override {
    logs_.stop_waiting();
    std::lock_guard lock(mutex_);
    last_tries_ = true;
  }

  void stop() override {
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      stopping_ = true;
    }
    threads_.writer.run_until([this] {
      std::lock_guard lock(mutex_);
      return stopped_ || (waiting_.empty() && !writing_);
    });
    threads_.syncer.run_until([this] {
      std::lock_guard lock(mutex_);
      return stopped_ || (to_sync_.empty() && !syncing_);
    });
    log_.info("log_totals",
              {{"groups", groups_}, {"entries", entries_}, {"messages", messages_}, {"syncs", syncs_}});
  }

 private:
  // Proposals in order, up to the limits of a group; at least one. With the lock held.
  Proposals take_group() {
    Proposals group;
    std::uint64_t bytes = 0;
    while (!waiting_.empty() && group.size() < settings_.group_entries_max &&
           (group.empty() || bytes + waiting_.front()->bytes <= settings_.group_bytes_max)) {
      bytes += waiting_.front()->bytes;
      group.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    return group;
  }

  // With the lock held. What comes while written groups wait for the syncer goes into the next one.
  void wake_writer() {
    if (writing_ || to_sync_.size() == kWrittenMax || waiting_.empty() || stopped_) return;
    writing_ = true;
    threads_.writer.post([this] { write_group(); });
  }
  void wake_syncer() {
    if (syncing_ || to_sync_.empty() || stopped_) return;
    syncing_ = true;
    threads_.syncer.post([this] { sync_group(); });
  }

  // On the writer; `writing_` is set.
  void write_group() {
    Proposals proposals;
    {
      std::lock_guard lock(mutex_);
      if (stopped_) return;
      proposals = take_group();
    }
    std::vector<qlog::EntryToWrite> entries;
    entries.reserve(proposals.size());
    for (const auto& proposal : proposals) {
      entries.push_back(
          {proposal->index, 0, proposal->now_us, proposal->entry, proposal->messages, proposal->touched});
    }
    auto written = logs_.write_group(entries);
    if (written) return hand_to_syncer({std::move(proposals), std::move(*written)});
    // Out of descriptors: that passes, and nothing was written (HD-28).
    if (written.error().code == Errc::busy && wait_out(proposals, written.error())) return;
    if (written.error().code == Errc::full || written.error().code == Errc::busy)
      return lose_from(proposals.front()->index, written.error());
    halt("raft log write failed: " + written.error().what);
  }

  // False when the node is to stop meanwhile and its tries are used up. Else the group is tried again.
  bool wait_out(Proposals& proposals, const Error& cause) {
    if (busy_waits_++ % kLossesPerLine == 0) log_.warn("log_write_waits", {{"why", cause.what}});
    std::lock_guard lock(mutex_);
    if (stopping_ || (last_tries_ && busy_tries_at_stop_++ >= kBusyTriesAtStop)) return false;
    waiting_.insert(waiting_.begin(), std::make_move_iterator(proposals.begin()),
                    std::make_move_iterator(proposals.end()));
    threads_.writer.post_after(kBusyWaitUs, [this] { write_group(); });
    return true;
  }

  void hand_to_syncer(Group group) {
    std::lock_guard lock(mutex_);
    writing_ = false;
    to_sync_.push_back(std::move(group));
    wake_syncer();
    wake_writer();
  }

  // Nothing of the group was written; what was planned on top of it is void as well.
  void lose_from(EntryIndex first, const Error& cause) {
    {
      std::lock_guard lock(mutex_);
      writing_ = false;
      lost_ = true;
      lost_first_ = first.value;
      waiting_.clear();
    }
    ++losses_;
    if (losses_ == 1 || losses_ % kLossesPerLine == 0) {
      log_.warn("log_write_refused", {{"first_lost", first.value}, {"times", losses_}, {"why", cause.what}});
    }
    events_.on_lost(first, cause);
  }

  // On the syncer; `syncing_` is set.
  void sync_group() {
    Group group;
    {
      std::lock_guard lock(mutex_);
      if (stopped_) return;
      group = std::move(to_sync_.front());
      to_sync_.pop_front();
      wake_writer();
    }
    if (!planted(PlantedBug::replica_commits_before_sync)) return make_durable(std::move(group));
    commit(std::exchange(group.proposals, {}));
    threads_.syncer.post([this, late = std::move(group)]() mutable { make_durable(std::move(late)); });
  }

  void make_durable(Group group) {
    if (auto synced = logs_.sync(group.written); !synced)
      return halt("raft log fsync failed: " + synced.error().what);
    ++groups_;
    syncs_ += group.written.logs.size();
    commit(std::move(group.proposals));
    std::lock_guard lock(mutex_);
    syncing_ = false;
    wake_syncer();
  }

  void commit(Proposals proposals) {
    std::vector<Committed> entries;
    entries.reserve(proposals.size());
    entries_ += proposals.size();
    for (auto& proposal : proposals) {
      for (const auto& message : proposal->messages) messages_ += message.count;
      const std::uint64_t index = proposal->index.value;
      INVARIANT(index == committed_.load(std::memory_order_relaxed) + 1, "commit gap at {}, committed {}",
                index, committed_.load());
      committed_.store(index, std::memory_order_release);
      entries.push_back({EntryIndex{index}, 0, std::move(proposal)});
    }
    events_.on_committed(std::move(entries));
  }

  void halt(std::string why) {
    {
      std::lock_guard lock(mutex_);
      if (stopped_) return;
      stopped_ = true;
    }
    // Whoever waits for either to come to an end looks again.
    threads_.writer.post([] {});
    threads_.syncer.post([] {});
    log_.error("log_stopped", {{"why", why}});
    events_.on_stopped(Error{Errc::unavailable, std::move(why)});
  }

  qlog::QueueLogs& logs_;
  const LocalSettings settings_;
  const LocalThreads threads_;
  const Events events_;
  Logger log_;
  mutable std::mutex mutex_;  // guards everything down to syncing_
  std::deque<std::shared_ptr<Proposal>> waiting_;
  std::deque<Group> to_sync_;  // written
  std::uint64_t next_;
  std::uint64_t lost_first_ = 0;
  bool lost_ = false, stopped_ = false, stopping_ = false, last_tries_ = false;
  int busy_tries_at_stop_ = 0;
  // A step of the writer or the syncer runs, or will.
  bool writing_ = false, syncing_ = false;
  std::uint64_t losses_ = 0, busy_waits_ = 0;  // writer
  std::atomic<std::uint64_t> committed_{0};
  std::uint64_t groups_ = 0, entries_ = 0, messages_ = 0, syncs_ = 0;  // since start; syncer
};

}  // namespace

std::string_view name_of(Role role) {
  switch (role) {
    case Role::leader:
      return "leader";
    case Role::follower:
      return "follower";
    case Role::learner:
      return "learner";
    case Role::candidate:
      return "candidate";
    case Role::stopped:
      break;
  }
  return "stopped";
}

std::unique_ptr<Replicator> make_local_replicator(qlog::QueueLogs& logs, EntryIndex next,
                                                  LocalSettings settings, LocalThreads threads, Events events,
                                                  Logger log) {
  return std::make_unique<LocalReplicator>(logs, next, settings, threads, std::move(events), std::move(log));
}

}  // namespace queen::replica
