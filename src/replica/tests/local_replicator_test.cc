// The replicator of one node over real queue logs: what a group is, and what waits for its sync.
#include <gtest/gtest.h>

#include <thread>

#include "disk/gated_disk.h"
#include "disk/ram_disk.h"
#include "replica/replicator.h"

namespace queen::replica {
namespace {

class LocalReplicatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    qlog::Options options;
    options.directory = "/qlog";
    options.prealloc_bytes = 0;
    options.precreate = false;
    auto opened = qlog::QueueLogs::open(
        disk_, runner_, options, {}, [](BytesView) { return std::vector<qlog::AppendKey>{}; },
        Logger(null_log(), "qlog"));
    ASSERT_TRUE(opened) << opened.error().what;
    logs_ = std::move(*opened);
    Events events;
    events.on_committed = [this](std::vector<Committed> entries) {
      const std::lock_guard held(mutex_);
      groups_.push_back(entries.size());
      for (const auto& entry : entries) committed_.push_back(entry.index.value);
      changed_.notify_all();
    };
    events.on_lost = [this](EntryIndex first, const Error& cause) {
      const std::lock_guard held(mutex_);
      lost_why_ = cause.code;
      lost_.push_back(first.value);
      changed_.notify_all();
    };
    events.on_stopped = [this](const Error&) {
      const std::lock_guard held(mutex_);
      stopped_ = true;
      changed_.notify_all();
    };
    replicator_ = make_local_replicator(*logs_, EntryIndex{1}, {}, {writer_, syncer_}, std::move(events),
                                        Logger(null_log(), "raft"));
    put(1);  // makes the log and its first file
    ASSERT_TRUE(wait_until([this] { return committed_.size() == 1; }));
    gate_.shut();
    written_ = gate_.writes();
  }
  void TearDown() override {
    gate_.open();
    if (replicator_) replicator_->stop();
    writer_.stop();
    syncer_.stop();
  }

  Result<EntryIndex> propose(int count) {
    Result<EntryIndex> last = Error{};
    for (int i = 0; i < count; ++i) {
      auto proposal = std::make_shared<Proposal>();
      proposal->entry = "entry";
      proposal->touched = {kSystemLog};
      proposal->bytes = 5;
      last = replicator_->propose(std::move(proposal));
    }
    return last;
  }
  // A log that is not there yet takes descriptors to make.
  void propose_to(LogId log) {
    auto proposal = std::make_shared<Proposal>();
    proposal->entry = "entry";
    proposal->touched = {log};
    proposal->bytes = 5;
    EXPECT_TRUE(replicator_->propose(std::move(proposal)));
  }
  bool wait_for_refusals(std::size_t count) {
    for (int i = 0; i < 10'000 && gate_.refused() < count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return gate_.refused() >= count;
  }
  void put(int count) { ignore(propose(count), "what was refused shows in what is committed"); }
  template <class Condition>
  bool wait_until(const Condition& condition) {
    std::unique_lock held(mutex_);
    return changed_.wait_for(held, std::chrono::seconds(10), condition);
  }
  // One group is with the syncer, one handed over, one written and waiting to be handed over.
  void fill_the_pipeline() {
    for (std::size_t group = 1; group <= 3; ++group) {
      put(1);
      ASSERT_TRUE(gate_.wait_for_writes(written_ + group));
    }
  }

  disk::RamDisk ram_;
  disk::SyncGate gate_;
  disk::GatedDisk disk_{ram_, gate_};
  qlog::InlineRunner runner_;
  std::unique_ptr<qlog::QueueLogs> logs_;
  std::mutex mutex_;  // guards what events bring
  std::condition_variable changed_;
  std::vector<std::size_t> groups_;
  std::vector<std::uint64_t> committed_, lost_;
  Errc lost_why_ = Errc::full;
  bool stopped_ = false;
  std::size_t written_ = 0;
  SystemClock clock_;
  ThreadExecutor writer_{"queen-writer", clock_}, syncer_{"queen-syncer", clock_};
  std::unique_ptr<Replicator> replicator_;
};

// GC-1, GC-6
TEST_F(LocalReplicatorTest, AGroupIsAllThatWaitsWhenTheWriterBecomesFree) {
  fill_the_pipeline();
  put(10);
  gate_.open();
  ASSERT_TRUE(wait_until([this] { return committed_.size() == 14; }));
  EXPECT_EQ(groups_, (std::vector<std::size_t>{1, 1, 1, 1, 10}));
  for (std::size_t i = 0; i < committed_.size(); ++i) EXPECT_EQ(committed_[i], i + 1);
}

// GC-7, DUR-4
TEST_F(LocalReplicatorTest, NothingIsCommittedBeforeItsSync) {
  put(1);
  ASSERT_TRUE(gate_.wait_for_writes(written_ + 1));
  EXPECT_EQ(replicator_->committed().value, 1U);
  gate_.open();
  ASSERT_TRUE(wait_until([this] { return committed_.size() == 2; }));
  EXPECT_EQ(replicator_->committed().value, 2U);
}

// GC-10
TEST_F(LocalReplicatorTest, AFullHandOverStopsTheWriterAndDropsNothing) {
  fill_the_pipeline();
  put(5);
  std::this_thread::yield();
  EXPECT_EQ(gate_.writes(), written_ + 3);
  gate_.open();
  ASSERT_TRUE(wait_until([this] { return committed_.size() == 9; }));
  EXPECT_EQ(gate_.writes(), written_ + 4);
}

// PL-8, HD-30: what a full volume gave back is told, its indexes are used again, and nothing of it stays.
TEST_F(LocalReplicatorTest, EntriesThatAFullVolumeGaveBackAreToldAndTheirIndexesUsedAgain) {
  gate_.open();
  ram_.set_free_bytes(0);
  put(1);
  ASSERT_TRUE(wait_until([this] { return !lost_.empty(); }));
  EXPECT_EQ(lost_, std::vector<std::uint64_t>{2});
  const auto refused = propose(1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::full);
  ram_.set_free_bytes(std::nullopt);
  replicator_->accept_loss();
  const auto again = propose(1);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->value, 2U);
  ASSERT_TRUE(wait_until([this] { return committed_.size() == 2; }));
  EXPECT_FALSE(stopped_);
}

// GC-9
TEST_F(LocalReplicatorTest, AFailedSyncStopsTheNodeAndCommitsNothing) {
  ram_.fail(disk::RamOp::sync, 1, Errc::unavailable);
  put(1);
  gate_.open();
  ASSERT_TRUE(wait_until([this] { return stopped_; }));
  EXPECT_EQ(replicator_->role(), Role::stopped);
  EXPECT_EQ(committed_.size(), 1U);
  EXPECT_FALSE(propose(1));
}

// HD-28: without descriptors an entry waits, and goes on once they are back.
TEST_F(LocalReplicatorTest, WithoutDescriptorsEntriesWaitAndNothingIsLost) {
  gate_.open();
  gate_.take_descriptors();
  propose_to(LogId{7});
  ASSERT_TRUE(wait_for_refusals(3));
  EXPECT_EQ(replicator_->committed().value, 1U);
  gate_.give_descriptors();
  ASSERT_TRUE(wait_until([this] { return committed_.size() == 2; }));
  EXPECT_TRUE(lost_.empty());
}

// HD-28: a node that is to stop does not wait for ever, and what it could not write is told as lost.
TEST_F(LocalReplicatorTest, AStopEndsTheWaitForDescriptorsAndCommitsNothingOfIt) {
  gate_.open();
  gate_.take_descriptors();
  propose_to(LogId{7});
  ASSERT_TRUE(wait_for_refusals(1));
  replicator_->stop_waiting();
  ASSERT_TRUE(wait_until([this] { return !lost_.empty(); }));
  EXPECT_EQ(lost_, std::vector<std::uint64_t>{2});
  EXPECT_EQ(lost_why_, Errc::busy);
  replicator_->stop();
  EXPECT_EQ(committed_.size(), 1U);
  EXPECT_FALSE(stopped_);
}

TEST_F(LocalReplicatorTest, WhileItStopsDescriptorsThatComeBackAreStillUsed) {
  gate_.open();
  gate_.take_descriptors();
  propose_to(LogId{7});
  ASSERT_TRUE(wait_for_refusals(1));
  replicator_->stop_waiting();
  gate_.give_descriptors();
  EXPECT_TRUE(wait_until([this] { return committed_.size() == 2; }));
  replicator_->stop();
  EXPECT_TRUE(lost_.empty());
}

}  // namespace
}  // namespace queen::replica
