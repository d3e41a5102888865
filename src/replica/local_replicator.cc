// The replicator of a single node. The writer takes whatever waits (GC-1), writes it, and hands it to the
// syncer, so that one group is written while the one before it is synced (GC-6).
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "base/invariant.h"
#include "replica/replicator.h"

namespace queen::replica {
namespace {

// A full volume refuses again and again; one line in so many says so.
constexpr std::uint64_t kLossesPerLine = 1000;
constexpr std::chrono::milliseconds kBusyWait{20};
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
  LocalReplicator(qlog::QueueLogs& logs, EntryIndex next, LocalSettings settings, Events events, Logger log)
      : logs_(logs),
        settings_(settings),
        events_(std::move(events)),
        log_(std::move(log)),
        next_(next.value) {
    committed_ = next.value - 1;
    writer_ = std::thread([this] { run_writer(); });
    syncer_ = std::thread([this] { run_syncer(); });
  }
  ~LocalReplicator() override { stop(); }

  Result<EntryIndex> propose(std::shared_ptr<Proposal> proposal) override {
    std::lock_guard lock(mutex_);
    if (stopped_ || stopping_) return Error{Errc::unavailable, "the node takes no more writes"};
    if (lost_) return Error{Errc::full, "earlier entries were lost to a full disk"};
    proposal->index = EntryIndex{next_++};
    const EntryIndex index = proposal->index;
    waiting_.push_back(std::move(proposal));
    if (waiting_.size() == 1) writer_wake_.notify_one();
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
      stopping_ = true;
    }
    writer_wake_.notify_all();
    if (writer_.joinable()) writer_.join();
    syncer_wake_.notify_all();
    if (!syncer_.joinable()) return;
    syncer_.join();
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

  void run_writer() {
    pthread_setname_np(pthread_self(), "queen-writer");
    while (true) {
      Proposals group;
      {
        std::unique_lock lock(mutex_);
        writer_wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
        if (waiting_.empty() || stopped_) break;
        group = take_group();
      }
      if (!write(std::move(group))) break;
    }
    std::lock_guard lock(mutex_);
    writer_done_ = true;
    syncer_wake_.notify_all();
  }

  // False when the node stopped.
  bool write(Proposals proposals) {
    std::vector<qlog::EntryToWrite> entries;
    entries.reserve(proposals.size());
    for (const auto& proposal : proposals) {
      entries.push_back(
          {proposal->index, 0, proposal->now_us, proposal->entry, proposal->messages, proposal->touched});
    }
    auto written = logs_.write_group(entries);
    // Out of descriptors: that passes, and nothing was written (HD-28).
    while (!written && written.error().code == Errc::busy && wait_out(written.error()))
      written = logs_.write_group(entries);
    if (written) return hand_to_syncer({std::move(proposals), std::move(*written)});
    if (written.error().code == Errc::full || written.error().code == Errc::busy) {
      lose_from(proposals.front()->index, written.error());
      return true;
    }
    halt("raft log write failed: " + written.error().what);
    return false;
  }

  // False when the node is to stop meanwhile and its tries are used up.
  bool wait_out(const Error& cause) {
    if (busy_waits_++ % kLossesPerLine == 0) log_.warn("log_write_waits", {{"why", cause.what}});
    std::unique_lock lock(mutex_);
    if (last_tries_ && busy_tries_at_stop_++ >= kBusyTriesAtStop) return false;
    writer_wake_.wait_for(lock, kBusyWait, [this] { return stopping_; });
    return !stopping_;
  }

  bool hand_to_syncer(Group group) {
    std::unique_lock lock(mutex_);
    handed_over_.wait(lock, [this] { return !to_sync_ || stopped_; });
    if (stopped_) return false;
    to_sync_ = std::move(group);
    syncer_wake_.notify_one();
    return true;
  }

  // Nothing of the group was written; what was planned on top of it is void as well.
  void lose_from(EntryIndex first, const Error& cause) {
    {
      std::lock_guard lock(mutex_);
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

  void run_syncer() {
    pthread_setname_np(pthread_self(), "queen-syncer");
    while (true) {
      Group group;
      {
        std::unique_lock lock(mutex_);
        syncer_wake_.wait(lock, [this] { return to_sync_ || writer_done_ || stopped_; });
        if (stopped_ || !to_sync_) return;
        group = std::move(*to_sync_);
        to_sync_.reset();
      }
      handed_over_.notify_one();
      if (auto synced = logs_.sync(group.written); !synced) {
        halt("raft log fsync failed: " + synced.error().what);
        return;
      }
      ++groups_;
      syncs_ += group.written.logs.size();
      commit(std::move(group.proposals));
    }
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
    writer_wake_.notify_all();
    syncer_wake_.notify_all();
    handed_over_.notify_all();
    log_.error("log_stopped", {{"why", why}});
    events_.on_stopped(Error{Errc::unavailable, std::move(why)});
  }

  qlog::QueueLogs& logs_;
  const LocalSettings settings_;
  const Events events_;
  Logger log_;
  mutable std::mutex mutex_;  // guards everything down to writer_done_
  std::condition_variable writer_wake_, syncer_wake_, handed_over_;
  std::deque<std::shared_ptr<Proposal>> waiting_;
  std::optional<Group> to_sync_;
  std::uint64_t next_;
  std::uint64_t lost_first_ = 0;
  bool lost_ = false, stopped_ = false, stopping_ = false, last_tries_ = false, writer_done_ = false;
  std::uint64_t losses_ = 0, busy_waits_ = 0;  // writer thread
  int busy_tries_at_stop_ = 0;                 // writer thread
  std::atomic<std::uint64_t> committed_{0};
  std::uint64_t groups_ = 0, entries_ = 0, messages_ = 0, syncs_ = 0;  // since start; syncer thread
  std::thread writer_, syncer_;
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
                                                  LocalSettings settings, Events events, Logger log) {
  return std::make_unique<LocalReplicator>(logs, next, settings, std::move(events), std::move(log));
}

}  // namespace queen::replica
