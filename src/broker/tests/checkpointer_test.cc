// Checkpoints between two executors that run when the test says so, over a file that notes what it was given.
#include "broker/checkpointer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "broker/placement.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

using store::Keyspace;

// Fails as often as it is told to, and keeps the rows of every write.
class NotedFile final : public store::CheckpointFile {
 public:
  Status load(store::Store& store) override { return held_->load(store); }
  Status write(const store::Cut& cut) override {
    ++tries;
    if (fails_with) return Error{*fails_with, "the file does not take it"};
    last_rows = cut.count();
    return held_->write(cut);
  }
  bool fresh() const override { return held_->fresh(); }
  Usage usage() const override { return {}; }

  int tries = 0;
  std::size_t last_rows = 0;
  std::optional<Errc> fails_with;

 private:
  std::unique_ptr<store::CheckpointFile> held_ = store::make_memory_checkpoint();
};

class CheckpointerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/queen-checkpoint-XXXXXX";
    directory_ = ::mkdtemp(name);
    qlog::Options options;
    options.directory = directory_ + "/qlog";
    options.clock = &clock_;
    qlog::DurableState nothing;
    nothing.store_missing = true;
    auto logs = qlog::QueueLogs::open(*disk_, runner_, options, nothing, appends_of_entry(),
                                      Logger(null_log(), "qlog"));
    ASSERT_TRUE(logs) << logs.error().what;
    logs_ = std::move(*logs);
    checkpointer_.emplace(
        store_, file_, *logs_, apply_, writer_,
        [this](const Error& cause) { failures_.push_back(cause.what); }, Logger(null_log(), "rsm"));
    checkpointer_->start(EntryIndex{0});
  }
  void TearDown() override {
    checkpointer_.reset();
    ASSERT_TRUE(logs_->close());
    std::filesystem::remove_all(directory_);
  }

  // As apply does it.
  void entry(std::uint64_t index, const std::string& key, const std::string& value) {
    const auto gate = store_.write_gate();
    store_.put(Keyspace::meta, store::kMetaAppliedIndex, store::encode_meta_u64(index));
    store_.put(Keyspace::kv, key, value);
    checkpointer_->applied(EntryIndex{index}, {kSystemLog}, 100);
  }
  void run_both() {
    while (writer_.run_ready() + apply_.run_ready() != 0) continue;
  }
  std::optional<Bytes> in_file(Keyspace keyspace, BytesView key) {
    store::Store out;
    EXPECT_TRUE(file_.load(out));
    return out.get(keyspace, key);
  }
  static std::optional<Bytes> number(std::uint64_t value) { return store::encode_meta_u64(value); }

  std::string directory_;
  std::unique_ptr<disk::Disk> disk_ = disk::make_posix_disk();
  ManualClock clock_;
  ManualExecutor apply_{clock_}, writer_{clock_};
  qlog::InlineRunner runner_;
  store::Store store_;
  NotedFile file_;
  std::unique_ptr<qlog::QueueLogs> logs_;
  std::vector<std::string> failures_;
  std::optional<Checkpointer> checkpointer_;
};

// CP-1, CP-2
TEST_F(CheckpointerTest, OneTransactionCarriesTheRowsWithTheIndexTheyStandFor) {
  entry(1, "a", "1");
  entry(2, "b", "2");
  checkpointer_->begin();
  run_both();
  EXPECT_EQ(file_.tries, 1);
  EXPECT_EQ(in_file(Keyspace::kv, "a"), "1");
  EXPECT_EQ(in_file(Keyspace::kv, "b"), "2");
  EXPECT_EQ(in_file(Keyspace::meta, store::kMetaAppliedIndex), number(2));
  EXPECT_EQ(in_file(Keyspace::meta, store::kMetaDurableIndex), number(2));
  EXPECT_EQ(in_file(Keyspace::meta, store::kMetaQlogDurableIndex), number(2));
  EXPECT_EQ(in_file(Keyspace::meta, store::meta_qlog_tail(kSystemLog)), number(2));
}

// CP-7: apply goes on between the cut and its write, and the file gets the rows as of the cut.
TEST_F(CheckpointerTest, ApplyGoesOnWhileACutWaitsToBeWritten) {
  entry(1, "a", "1");
  checkpointer_->begin();
  entry(2, "a", "2");
  entry(3, "b", "3");
  checkpointer_->begin();  // one at a time
  EXPECT_EQ(file_.tries, 0);
  EXPECT_EQ(checkpointer_->durable().value, 0U);
  run_both();
  EXPECT_EQ(file_.tries, 1);
  EXPECT_EQ(in_file(Keyspace::kv, "a"), "1");
  EXPECT_EQ(in_file(Keyspace::kv, "b"), std::nullopt);
  EXPECT_EQ(in_file(Keyspace::meta, store::kMetaDurableIndex), number(1));
  EXPECT_EQ(checkpointer_->durable().value, 1U);
  checkpointer_->begin();
  run_both();
  EXPECT_EQ(in_file(Keyspace::kv, "a"), "2");
  EXPECT_EQ(in_file(Keyspace::kv, "b"), "3");
  EXPECT_EQ(checkpointer_->durable().value, 3U);
}

// CP-6
TEST_F(CheckpointerTest, AnIdleNodeWritesNoneAndACleanStopTheLast) {
  entry(1, "a", "1");
  checkpointer_->begin();
  run_both();
  for (int i = 0; i < 5; ++i) {
    checkpointer_->begin();
    run_both();
  }
  EXPECT_EQ(file_.tries, 1);
  ASSERT_TRUE(checkpointer_->finish());
  EXPECT_EQ(file_.tries, 1);
  entry(2, "a", "2");
  ASSERT_TRUE(checkpointer_->finish());
  EXPECT_EQ(file_.tries, 2);
  EXPECT_EQ(in_file(Keyspace::kv, "a"), "2");
}

// CP-1, B28: what could not be written comes again, with newer values, and no index is reported for it.
TEST_F(CheckpointerTest, RowsOfACutThatFoundNoSpaceAreInTheNext) {
  entry(1, "kept", "1");
  entry(2, "newer", "1");
  file_.fails_with = Errc::full;
  checkpointer_->begin();
  entry(3, "newer", "2");
  run_both();
  EXPECT_EQ(checkpointer_->durable().value, 0U);
  EXPECT_THAT(failures_, ::testing::IsEmpty());
  file_.fails_with.reset();
  checkpointer_->begin();
  run_both();
  EXPECT_EQ(in_file(Keyspace::kv, "kept"), "1");
  EXPECT_EQ(in_file(Keyspace::kv, "newer"), "2");
  EXPECT_EQ(checkpointer_->durable().value, 3U);
}

// HD-28: the file that was closed cannot be opened while there are no descriptors; that passes.
TEST_F(CheckpointerTest, RowsOfACutThatFoundNoDescriptorsAreInTheNext) {
  entry(1, "a", "1");
  file_.fails_with = Errc::busy;
  checkpointer_->begin();
  run_both();
  EXPECT_THAT(failures_, ::testing::IsEmpty());
  file_.fails_with.reset();
  checkpointer_->begin();
  run_both();
  EXPECT_EQ(in_file(Keyspace::kv, "a"), "1");
  EXPECT_EQ(checkpointer_->durable().value, 1U);
}

TEST_F(CheckpointerTest, AnyOtherFailureStopsTheNodeAndReportsNoIndex) {
  entry(1, "a", "1");
  file_.fails_with = Errc::unavailable;
  checkpointer_->begin();
  run_both();
  EXPECT_THAT(failures_, ::testing::ElementsAre(::testing::HasSubstr("does not take it")));
  EXPECT_EQ(checkpointer_->durable().value, 0U);
}

// A clean stop finds a cut that was begun and whose work was dropped with its executor.
TEST_F(CheckpointerTest, AStopWritesTheCutWhoseWorkWasDropped) {
  entry(1, "a", "1");
  checkpointer_->begin();
  ASSERT_TRUE(checkpointer_->finish());
  EXPECT_EQ(in_file(Keyspace::kv, "a"), "1");
  EXPECT_EQ(checkpointer_->durable().value, 1U);
}

// DUR-10: a stop does not try again what stopped the node.
TEST_F(CheckpointerTest, AStopWritesNothingAfterAFailureThatNobodyHasHeardOfYet) {
  entry(1, "a", "1");
  file_.fails_with = Errc::unavailable;
  checkpointer_->begin();
  writer_.run_ready();
  file_.fails_with.reset();
  EXPECT_FALSE(checkpointer_->finish());
  EXPECT_EQ(file_.tries, 1);
  EXPECT_EQ(checkpointer_->durable().value, 0U);
}

}  // namespace
}  // namespace queen::broker
