// Upkeep with the store and the checkpoints of a node: files go, rows follow, a restart finds what is left.
// Entries are written by hand, and apply is what a test puts into the store.
#include "broker/upkeep.h"

#include <gtest/gtest.h>

#include "broker/placement.h"
#include "disk/ram_disk.h"
#include "machine/effects.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::string_view kQueue = "orders";

// A checkpoint file that refuses on demand.
class FlakyCheckpoint final : public store::CheckpointFile {
 public:
  Status load(store::Store& store) override { return file_->load(store); }
  Status write(const store::Cut& cut) override {
    ++writes;
    if (full) return Error{Errc::full, "no space left on device"};
    return file_->write(cut);
  }
  bool fresh() const override { return file_->fresh(); }
  Usage usage() const override { return file_->usage(); }

  std::uint64_t writes = 0;
  bool full = false;

 private:
  std::unique_ptr<store::CheckpointFile> file_ = store::make_memory_checkpoint();
};

class UpkeepTest : public ::testing::Test {
 protected:
  UpkeepTest() {
    settings_.seal_age_us = 60 * kSecond;
    EXPECT_TRUE(disk_.make_dirs("/data"));
    EXPECT_TRUE(disk_.sync_dir("/"));
    open();
  }
  ~UpkeepTest() override { upkeep_.reset(); }

  // As a node does at boot.
  void open() {
    upkeep_.reset();
    checkpointer_.reset();
    logs_.reset();
    executor_.emplace(clock_);  // what was still to come of the old ones is dropped
    store_ = std::make_unique<store::Store>();
    if (!file_.fresh()) {
      ASSERT_TRUE(file_.load(*store_));
    }
    qlog::Options options;
    options.directory = "/data/qlog";
    options.segment_bytes = 4096;
    options.prealloc_bytes = 0;
    const auto durable = durable_state();
    auto opened = qlog::QueueLogs::open(disk_, runner_, options, durable, appends_of_entry(), log_);
    ASSERT_TRUE(opened) << opened.error().what;
    logs_ = std::move(*opened);
    written_ = logs_->recovery().last_index;
    checkpointer_ = std::make_unique<Checkpointer>(
        *store_, file_, *logs_, *executor_, *executor_, [this](const Error&) { sound_ = false; }, log_);
    checkpointer_->start(EntryIndex{durable.durable_index});
    for (const auto& [log, tail] : logs_->recovery().replayed_tails)
      checkpointer_->applied(EntryIndex{tail}, {log}, 0);
    checkpointer_->applied(EntryIndex{written_}, {}, 0);
    const UpkeepFailure failure{[this] { return sound_; }, [this](const Error&) { sound_ = false; }};
    upkeep_ = std::make_unique<Upkeep>(*logs_, *store_, *checkpointer_, *executor_, settings_, failure, log_);
    upkeep_->start();
  }

  qlog::DurableState durable_state() const {
    qlog::DurableState out;
    const auto bytes = store_->get(store::Keyspace::meta, store::kMetaDurableIndex);
    out.durable_index = out.qlog_durable_index = bytes ? store::decode_meta_u64(*bytes).value_or(0) : 0;
    store_->scan(store::Keyspace::meta, store::kMetaQlogTailPrefix, {}, [&](BytesView key, BytesView value) {
      out.tails[*store::meta_log_id(store::kMetaQlogTailPrefix, key)] = *store::decode_meta_u64(value);
      return true;
    });
    store_->scan(store::Keyspace::meta, store::kMetaQlogFilesPrefix, {}, [&](BytesView key, BytesView value) {
      out.files[*store::meta_log_id(store::kMetaQlogFilesPrefix, key)] = *store::decode_meta_u32_list(value);
      return true;
    });
    return out;
  }

  // Time goes on: passes when they are due, a checkpoint every second as in a node.
  void run(std::int64_t seconds) {
    for (std::int64_t i = 0; i < seconds; ++i) {
      executor_->run_for(kSecond);
      if (sound_) checkpointer_->begin();
      executor_->run_ready();
    }
  }

  static LogId log_of(Pid pid) {
    return qlog::Layout{}.of_partition(qlog::Layout::queue_id(kDefaultTenant, kQueue), pid);
  }
  void put_partition(Pid pid, std::int64_t txns_start) {
    store::PartitionRow row;
    row.tenant = std::string(kDefaultTenant);
    row.queue = std::string(kQueue);
    row.log_start = row.txns_start = txns_start;
    const auto gate = store_->write_gate();
    store_->put(store::Keyspace::partitions, store::partition_key(pid), row.encode());
  }

  Status write(const std::vector<LogId>& touched, std::vector<qlog::MessageToWrite> messages = {}) {
    machine::Entry entry;
    entry.now_us = clock_.wall_us();
    const Bytes bytes = machine::encode_entry(entry);
    const qlog::EntryToWrite out{.index = EntryIndex{written_ + 1},
                                 .term = 0,
                                 .now_us = clock_.wall_us(),
                                 .entry = bytes,
                                 .messages = std::move(messages),
                                 .touched = touched};
    auto group = logs_->write_group({&out, 1});
    if (!group) return std::move(group).error();
    if (auto done = logs_->sync(*group); !done) return done;
    checkpointer_->applied(EntryIndex{++written_}, touched, group->bytes);
    return {};
  }
  Status append(Pid pid, std::uint64_t base) {
    const Bytes hashes(16, 'h');
    Bytes payload;
    qlog::MessageFrame frame;
    frame.transaction_id = "t";
    frame.payload = "{}";
    qlog::append_frame(payload, frame);
    return write({log_of(pid)}, {{.log = log_of(pid),
                                  .pid = pid,
                                  .base_offset = base,
                                  .count = 1,
                                  .created_at = clock_.wall_us(),
                                  .hashes = hashes,
                                  .payload = payload,
                                  .compressed = false}});
  }
  std::size_t messages(Pid pid, std::uint64_t from) {
    const auto batch =
        logs_->read(log_of(pid), pid, from,
                    {.end_offset = 1'000'000, .messages_max = 1'000'000, .payload_bytes_max = 1ULL << 40});
    EXPECT_TRUE(batch);
    return batch ? batch->messages.size() : 0;
  }

  disk::RamDisk disk_;
  qlog::InlineRunner runner_;
  ManualClock clock_;
  std::optional<ManualExecutor> executor_;
  Logger log_{null_log(), "rsm"};
  qlog::UpkeepSettings settings_;
  FlakyCheckpoint file_;
  bool sound_ = true;
  std::uint64_t written_ = 0;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<qlog::QueueLogs> logs_;
  std::unique_ptr<Checkpointer> checkpointer_;
  std::unique_ptr<Upkeep> upkeep_;
};

// RE-1, RE-2, RE-6: what a partition row says is dead goes, and what it says is alive stays, over a restart
// too.
TEST_F(UpkeepTest, FreesWhatThePartitionRowsSayIsDead) {
  put_partition({7}, 0);
  for (std::uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(append({7}, i));
  run(3);
  const auto before = logs_->bytes_on_disk();
  put_partition({7}, 150);
  run(20);
  EXPECT_LT(logs_->bytes_on_disk(), before / 2);
  EXPECT_EQ(messages({7}, 150), 50u);
  disk_.crash();
  open();
  EXPECT_EQ(messages({7}, 150), 50u);
  run(20);
  EXPECT_EQ(messages({7}, 150), 50u);
}

// ID-1, ID-3, ID-4, LOG-7: the log of a deleted queue dies with its last message, its rows before it; the
// next push makes it again.
TEST_F(UpkeepTest, TheLogOfADeletedQueueDiesAndComesBackWithTheNextPush) {
  put_partition({7}, 0);
  ASSERT_TRUE(append({7}, 0));
  run(3);
  EXPECT_EQ(durable_state().files.count(log_of({7})), 1u);
  {
    const auto gate = store_->write_gate();
    store_->erase(store::Keyspace::partitions, store::partition_key({7}));
  }
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(write({kSystemLog}));
    run(10);
  }
  EXPECT_FALSE(logs_->exists(log_of({7})));
  EXPECT_EQ(durable_state().files.count(log_of({7})), 0u);
  EXPECT_EQ(durable_state().tails.count(log_of({7})), 0u);
  disk_.crash();
  open();
  put_partition({8}, 0);
  ASSERT_TRUE(append({8}, 0));
  run(3);
  disk_.crash();
  open();
  EXPECT_EQ(messages({8}, 0), 1u);
}

// HD-31: hours of entries without messages, in the system log and in those of queues, leave no trace.
TEST_F(UpkeepTest, HoursOfEntriesWithoutMessagesKeepTheDirectoryBounded) {
  put_partition({7}, 0);
  ASSERT_TRUE(append({7}, 0));  // one that nobody acknowledges
  std::uint64_t most_bytes = 0;
  std::size_t most_files = 0;
  for (int i = 0; i < 6 * 360; ++i) {
    ASSERT_TRUE(write({kSystemLog}));
    ASSERT_TRUE(write({log_of({7})}));
    ASSERT_TRUE(write({kSystemLog, LogId{42}, log_of({7})}));
    run(10);
    if (i < 60) continue;
    most_bytes = std::max(most_bytes, logs_->bytes_on_disk());
    most_files = std::max(most_files, disk_.files().size());
  }
  EXPECT_LT(most_bytes, 16'000u);
  EXPECT_LT(most_files, 30u);
  EXPECT_EQ(messages({7}, 0), 1u);
}

// CP-6: the last change is written, then nothing.
TEST_F(UpkeepTest, AnIdleNodeWritesNoCheckpoint) {
  put_partition({7}, 0);
  ASSERT_TRUE(append({7}, 0));
  run(120);
  const auto writes = file_.writes;
  run(600);
  EXPECT_EQ(file_.writes, writes);
}

// CP-6: a list of files alone is a reason for one.
TEST_F(UpkeepTest, ASealAloneIsWrittenDown) {
  put_partition({7}, 0);
  ASSERT_TRUE(append({7}, 0));
  run(3);
  EXPECT_EQ(durable_state().files.at(log_of({7})), (std::vector<std::uint32_t>{1}));
  run(70);
  EXPECT_EQ(durable_state().files.at(log_of({7})), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(checkpointer_->cut_durable(), checkpointer_->cuts_begun());
}

// RE-9: a cut that could not be written counts for nothing, and is made up for.
TEST_F(UpkeepTest, NoFileGoesBeforeACheckpointWithoutItWasWritten) {
  put_partition({7}, 0);
  for (std::uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(append({7}, i));
  run(3);
  put_partition({7}, 200);
  file_.full = true;
  const auto before = disk_.files().size();
  run(20);
  EXPECT_EQ(disk_.files().size(), before);
  EXPECT_GT(checkpointer_->cuts_begun(), checkpointer_->cut_durable());
  file_.full = false;
  run(20);
  EXPECT_LT(disk_.files().size(), before);
  EXPECT_EQ(checkpointer_->cut_durable(), checkpointer_->cuts_begun());
}

// SP-1: after a failure of the node its files stay as they are.
TEST_F(UpkeepTest, NothingIsChangedOnANodeThatFailed) {
  put_partition({7}, 0);
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(append({7}, i));
  run(3);
  put_partition({7}, 100);
  sound_ = false;
  const auto before = disk_.files();
  run(100);
  EXPECT_EQ(disk_.files(), before);
}

// DUR-10
TEST_F(UpkeepTest, ASealThatFailsStopsTheNode) {
  put_partition({7}, 0);
  ASSERT_TRUE(append({7}, 0));
  run(50);
  disk_.fail(disk::RamOp::sync, 1, Errc::unavailable, EIO);
  run(20);
  EXPECT_FALSE(sound_);
}

}  // namespace
}  // namespace queen::broker
