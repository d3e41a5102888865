// Nodes that run queue tasks over one fake broker and one bucket in memory, in virtual time.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "s3/memory_store.h"
#include "sink/queue_task.h"
#include "sink/tests/fake_broker.h"
#include "sink/tests/lake_checker.h"

namespace queen::sink::test {

inline constexpr const char* kQueue = "rides";

// What all nodes share: time, the broker, the bucket.
struct Cell {
  ManualClock clock{kEpoch + 10 * kSecond};
  ManualExecutor executor{clock};
  FakeBroker broker{executor};
  s3::MemoryStore store{executor};
  std::uint64_t nodes_made = 0;

  void run_for(std::int64_t us) { executor.run_for(us); }
  // Runs until `done` or `us` have passed; gives whether it came.
  template <class Done>
  bool run_until(Done done, std::int64_t us = 600 * kSecond) {
    for (std::int64_t passed = 0; passed < us && !done(); passed += 10'000) executor.run_for(10'000);
    return done();
  }
  std::uint64_t committed_k() const {
    const auto row = broker.live(committed_key("default", kQueue));
    return row ? parse_committed(row->value)->k : 0;
  }
  std::map<std::string, Bytes> data_objects() const {
    std::map<std::string, Bytes> out;
    for (auto& [key, body] : store.objects()) {
      if (!key.starts_with("queen/_queen/")) out.emplace(key, body);
    }
    return out;
  }
  LakePath path() const { return {.prefix = "queen", .tenant = "t", .queue = kQueue}; }
  LakeVerdict check_lake(bool complete = true) {
    return check(store.objects(), path(), "default", Align::hour, broker.queues[kQueue], complete);
  }
};

inline UnitSettings quick_unit() {
  UnitSettings unit;
  unit.queues = {kQueue};
  unit.bucket = "lake";
  unit.endpoint = "http://minio:9000";
  unit.start = StartFrom::earliest;
  unit.max_window_us = 10 * kSecond;
  return unit;
}
inline NodeSettings quick_node() {
  NodeSettings node;
  node.instance = "node-1@a";
  node.discovery_interval_us = 500'000;
  node.safe_guard_us = 1 * kSecond;
  node.lease_ttl_us = 9 * kSecond;
  node.checkpoint_every = 2;
  return node;
}

// One node with a task for one queue. Ends its task before it goes.
class Node {
 public:
  explicit Node(Cell& cell, NodeSettings settings = quick_node(), UnitSettings unit = quick_unit(),
                LogSink& log = null_log())
      : cell_(cell),
        log_(log),
        unit_(std::move(unit)),
        node_(std::move(settings)),
        shared_(cell.executor, node_.memory_bytes) {
    task_ = std::make_unique<QueueTask>(world_, kQueue);
    spawn(cell.executor, task_->run(), [this] { ended_ = true; });
  }
  ~Node() {
    cell_.broker.fail_kv = cell_.broker.fail_reads = 0;
    cell_.store.refuse_puts(std::nullopt);
    cell_.store.release();
    task_->stop();
    EXPECT_TRUE(cell_.run_until([this] { return ended_; })) << "the task does not end";
  }
  QueueTask& task() { return *task_; }
  bool ended() const { return ended_; }
  int crashes() const { return crashes_; }
  QueueRow row() const {
    const auto queues = board_.snapshot(0).queues;
    const auto found = queues.find(kQueue);
    return found == queues.end() ? QueueRow() : found->second;
  }
  StatusBoard::Snapshot snapshot() const { return board_.snapshot(cell_.clock.mono_us()); }
  TenantCounters counters() const { return shared_.metrics.snapshot()["t"]; }
  // Like SIGTERM: drains and ends. Gives whether it ended in time.
  bool stop(std::int64_t us = 30 * kSecond) {
    task_->stop();
    return cell_.run_until([this] { return ended_; }, us);
  }

 private:
  Cell& cell_;
  LogSink& log_;
  UnitSettings unit_;
  NodeSettings node_;
  SinkNode shared_;
  StatusBoard board_{10 * kSecond};
  BrokerCalls calls_{cell_.broker, cell_.executor};
  StoreCalls store_{cell_.store, cell_.executor};
  SeededRandom random_{++cell_.nodes_made};  // no two lives share an incarnation
  int crashes_ = 0;
  SinkWorld world_{.unit = unit_,
                   .node = node_,
                   .tenant = "t",
                   .version = "0.1.0",
                   .executor = cell_.executor,
                   .builders = {&cell_.executor},
                   .random = random_,
                   .log = Logger(log_, "queen-s3"),
                   .calls = calls_,
                   .store = store_,
                   .shared = shared_,
                   .board = board_,
                   .crash = [this](CrashPoint) { ++crashes_; },
                   .line = {},
                   .give_back = GiveBack(node_.lease_ttl_us),
                   .nodes = 1,
                   .queues = 1,
                   .limit = {}};
  std::unique_ptr<QueueTask> task_;
  bool ended_ = false;
};

}  // namespace queen::sink::test
