// One history of entries through the replicator, each waiting for the one before, and all at once, so that a
// group is written while the one before it is synced: the logs hold the same bytes and the store the same
// state.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "disk/gated_disk.h"
#include "machine/apply.h"
#include "qlog/record.h"
#include "workload.h"

namespace queen::crash {
namespace {

struct History {
  std::vector<Planned> entries;
  std::uint64_t digest = 0;  // of the node that planned it
};

History history_of(const Shape& shape, std::uint64_t seed) {
  History history;
  disk::RamDisk disk;
  EXPECT_TRUE(disk.make_dirs("/data"));
  Workload work(disk, shape.options, seed);
  work.on_planned = [&](const Planned& planned) { history.entries.push_back(planned); };
  EXPECT_TRUE(work.start());
  work.run_every_kind();
  work.run(100);
  EXPECT_EQ(work.wrong(), "");
  history.digest = work.digest_at(work.answered()).value_or(0);
  return history;
}

struct Left {
  std::map<std::string, Bytes> logs;  // files and indexes
  std::uint64_t digest = 0, recovered = 0;
};

enum class Pace : std::uint8_t {
  one_at_a_time,
  pipelined,
  pipelined_for_sure,  // the syncs of the second half wait until two groups are written
};

// A node of which only the writer, the syncer and apply run.
class Writing {
 public:
  Writing(NodeOptions options, std::size_t group_entries_max) {
    EXPECT_TRUE(ram_.make_dirs("/data"));
    settings_.directory = "/data";
    settings_.logs = std::move(options.logs);
    settings_.checkpoint_home = &checkpoints_;
    open();
    replica::Events events;
    events.on_committed = [this](const std::vector<replica::Committed>& entries) { committed(entries); };
    events.on_lost = [](EntryIndex, const Error& cause) { ADD_FAILURE() << cause.what; };
    events.on_stopped = [](const Error& cause) { ADD_FAILURE() << cause.what; };
    replicator_ = replica::make_local_replicator(*opened_->logs, EntryIndex{1}, {group_entries_max, 4U << 20},
                                                 {writer_, syncer_}, std::move(events), log_);
  }
  ~Writing() {
    gate_.open();
    replicator_->stop();
    writer_.stop();
    syncer_.stop();
  }

  Left write(const History& history, Pace pace) {
    const std::size_t half = history.entries.size() / 2;
    std::size_t shut_at = 0;
    for (const Planned& planned : history.entries) {
      if (pace == Pace::pipelined_for_sure && planned.index == half) {
        EXPECT_TRUE(wait_until(planned.index - 1));
        gate_.shut();
        shut_at = gate_.writes();
      }
      EXPECT_TRUE(replicator_->propose(std::make_shared<replica::Proposal>(*planned.proposal)));
      if (pace == Pace::one_at_a_time) {
        EXPECT_TRUE(wait_until(planned.index));
      }
    }
    if (pace == Pace::pipelined_for_sure) {
      EXPECT_TRUE(gate_.wait_for_writes(shut_at + 2));
      EXPECT_EQ(replicator_->committed().value, half - 1);
      gate_.open();
    }
    EXPECT_TRUE(wait_until(history.entries.size()));
    return stop();
  }

 private:
  void open() {
    auto opened = broker::open_directory(settings_, disk_, runner_, clock_, {}, log_);
    ASSERT_TRUE(opened) << opened.error().what;
    opened_.emplace(std::move(*opened));
  }
  void committed(const std::vector<replica::Committed>& entries) {
    for (const auto& each : entries) {
      const auto entry = machine::decode_entry(each.proposal->entry);
      ASSERT_TRUE(entry);
      const auto done = machine::apply_entry(*opened_->store, each.index, 0, *entry);
      ASSERT_TRUE(done) << done.error().what;
    }
    const std::lock_guard held(mutex_);
    applied_ = entries.back().index.value;
    changed_.notify_all();
  }
  bool wait_until(std::uint64_t index) {
    std::unique_lock held(mutex_);
    return changed_.wait_for(held, std::chrono::seconds(60), [&] { return applied_ >= index; });
  }
  Left stop() {
    replicator_->stop();
    Left left;
    left.digest = opened_->store->digest();
    EXPECT_TRUE(opened_->logs->close());
    opened_.reset();
    for (auto& [path, bytes] : ram_.files())
      if (path.starts_with("/data/qlog/")) left.logs[path] = bytes;
    open();
    left.recovered = opened_->store->digest();
    return left;
  }

  disk::RamDisk ram_;
  disk::SyncGate gate_;
  disk::GatedDisk disk_{ram_, gate_};
  DiskCheckpoints checkpoints_{ram_};
  ManualClock clock_;
  qlog::InlineRunner runner_;
  Logger log_{null_log(), "crash"};
  broker::Settings settings_;
  std::optional<broker::Opened> opened_;
  std::mutex mutex_;  // guards applied_
  std::condition_variable changed_;
  std::uint64_t applied_ = 0;
  SystemClock system_clock_;
  ThreadExecutor writer_{"queen-writer", system_clock_}, syncer_{"queen-syncer", system_clock_};
  std::unique_ptr<replica::Replicator> replicator_;
};

Left write(const History& history, const NodeOptions& options, std::size_t group_entries_max, Pace pace) {
  return Writing(options, group_entries_max).write(history, pace);
}

void expect_same(const Left& left, const Left& right) {
  EXPECT_EQ(left.digest, right.digest);
  EXPECT_EQ(left.recovered, right.recovered);
  ASSERT_EQ(left.logs.size(), right.logs.size());
  for (const auto& [path, bytes] : left.logs) {
    ASSERT_TRUE(right.logs.contains(path)) << path;
    EXPECT_TRUE(bytes == right.logs.at(path)) << path;
  }
}

// GC-6, GC-7: with the same groups also the rolls are at the same places.
TEST(Pipeline, LeavesTheBytesAndTheStateOfAWriterThatTakesOneGroupAtATime) {
  for (const Shape& shape : shapes()) {
    for (std::uint64_t seed = 21; seed < 24; ++seed) {
      SCOPED_TRACE(shape.name + ", seed " + std::to_string(seed));
      const History history = history_of(shape, seed);
      ASSERT_GT(history.entries.size(), 50U);
      const Left serial = write(history, shape.options, 1, Pace::one_at_a_time);
      const Left pipelined = write(history, shape.options, 1, Pace::pipelined);
      EXPECT_EQ(serial.digest, history.digest);
      EXPECT_EQ(serial.recovered, history.digest);
      EXPECT_GT(serial.logs.size(), 10U);
      expect_same(serial, pipelined);
    }
  }
}

// The records of a file, in an order that does not depend on where groups end.
std::vector<Bytes> records_of(const Bytes& file) {
  std::vector<Bytes> records;
  for (std::size_t at = qlog::kFileHeaderBytes; at < file.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, file.data() + at, sizeof length);
    records.push_back(file.substr(at, sizeof length + length));
    at += sizeof length + length;
  }
  std::sort(records.begin(), records.end());
  return records;
}

// GC-1, GC-6, DUR-4: a group's messages come before its entries, so that only the order of records tells of
// groups.
TEST(Pipeline, LeavesTheSameRecordsHoweverEntriesAreGroupedWhileTheyWaitForASync) {
  for (Shape shape : shapes()) {
    SCOPED_TRACE(shape.name);
    shape.options.logs.segment_bytes = 1U << 20;
    const History history = history_of(shape, 25);
    const Left serial = write(history, shape.options, 1, Pace::one_at_a_time);
    EXPECT_EQ(serial.recovered, history.digest);
    for (const auto& [entries_max, pace] :
         {std::pair{4096, Pace::pipelined_for_sure}, std::pair{3, Pace::pipelined}}) {
      const Left grouped = write(history, shape.options, static_cast<std::size_t>(entries_max), pace);
      EXPECT_EQ(serial.digest, grouped.digest);
      EXPECT_EQ(serial.recovered, grouped.recovered);
      ASSERT_EQ(serial.logs.size(), grouped.logs.size());
      for (const auto& [path, bytes] : serial.logs) {
        ASSERT_TRUE(grouped.logs.contains(path)) << path;
        if (path.ends_with(".qlog")) {
          EXPECT_TRUE(records_of(bytes) == records_of(grouped.logs.at(path))) << path;
        }
      }
    }
  }
}

}  // namespace
}  // namespace queen::crash
