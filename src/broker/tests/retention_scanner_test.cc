// The retention scanner in virtual time over a store in RAM; what it proposes goes through the real planner.
#include "broker/retention_scanner.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "disk/ram_disk.h"
#include "machine/apply.h"
#include "machine/planner.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kDay = 86'400 * kSecond;

class RetentionScan : public ::testing::Test {
 protected:
  void SetUp() override {
    qlog::Options options;
    options.directory = "/qlog";
    auto opened = qlog::QueueLogs::open(
        disk_, runner_, options, {}, [](BytesView) { return std::vector<qlog::AppendKey>(); },
        Logger(null_log(), "qlog"));
    ASSERT_TRUE(opened) << opened.error().what;
    logs_ = std::move(*opened);
    settings_.cleanup_us = 0;
  }
  void TearDown() override {
    if (logs_) ignore(logs_->close(), "a test's log");
  }
  void begin() {
    scanner_.emplace(
        store_, *logs_, executor_, settings_,
        [this](machine::RetentionCommand command, UniqueFunction<void(bool)> done) {
          commands_.push_back(command);
          if (hold_answers_) {
            held_.emplace_back(std::move(command), std::move(done));
            return;
          }
          if (accept_) run(std::move(command));
          done(accept_);
        },
        [this] { return stopped_; }, Logger(null_log(), "rsm"));
    scanner_->start();
  }

  void run(auto body) {
    machine::Command command{std::string(kDefaultTenant), Uuid{}, std::move(body)};
    command.request_id.bytes[15] = static_cast<std::uint8_t>(++requests_);
    const machine::Command* pointer = &command;
    auto cycle = planner_.plan({&pointer, 1}, EntryIndex{index_}, clock_.wall_us());
    if (!cycle.entry) return;
    const auto applied = machine::apply_entry(store_, EntryIndex{index_}, 0, *cycle.entry);
    ASSERT_TRUE(applied) << applied.error().what;
    planner_.applied(EntryIndex{index_++});
  }
  void configure(std::map<std::string, std::optional<std::int64_t>> options) {
    machine::ConfigureCommand configure;
    configure.queue = "q";
    configure.integers = std::move(options);
    run(std::move(configure));
  }
  void push(const std::vector<std::string>& partitions) {
    machine::PushCommand push;
    for (const std::string& partition : partitions) {
      machine::PushBatch batch;
      batch.queue = "q";
      batch.partition = partition;
      batch.hashes = xxh3_128(std::to_string(pushed_++)).view();
      batch.frames = "0123456789";
      batch.frame_ends.push_back(10);
      push.batches.push_back(std::move(batch));
    }
    run(std::move(push));
  }
  void push_numbered(int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) names.push_back("p" + std::to_string(i));
    push(names);
  }
  store::PartitionRow partition(std::uint64_t pid) {
    return *store::PartitionRow::decode(
        *store_.get(store::Keyspace::partitions, store::partition_key(Pid{pid})));
  }
  std::int64_t counter(store::CounterScope scope, BytesView id) {
    const auto bytes =
        store_.get(store::Keyspace::counters, store::counter_key(scope, id, store::Counter::retained_bytes));
    return bytes ? *store::decode_i64_row(*bytes) : 0;
  }
  std::size_t moves() const {
    std::size_t out = 0;
    for (const auto& command : commands_) out += command.moves.size();
    return out;
  }

  disk::RamDisk disk_;
  qlog::InlineRunner runner_;
  std::unique_ptr<qlog::QueueLogs> logs_;
  ManualClock clock_;
  ManualExecutor executor_{clock_};
  store::Store store_;
  machine::Planner planner_{store_};
  RetentionSettings settings_;
  std::optional<RetentionScanner> scanner_;
  std::vector<machine::RetentionCommand> commands_;
  std::vector<std::pair<machine::RetentionCommand, UniqueFunction<void(bool)>>> held_;
  bool stopped_ = false, accept_ = true, hold_answers_ = false;
  std::uint64_t index_ = 1;
  int requests_ = 0, pushed_ = 0;
};

// RT-1, RT-8: what is older than retentionSeconds goes, what is younger stays, and the bytes are counted
// down.
TEST_F(RetentionScan, TakesWholeAppendsOlderThanTheRetention) {
  configure({{"retentionEnabled", 1}, {"retentionSeconds", 100}});
  push({"a"});
  clock_.advance(50 * kSecond);
  push({"a"});
  begin();
  clock_.advance(60 * kSecond);
  executor_.run_for(6 * kSecond);
  EXPECT_EQ(partition(1).log_start, 1);
  EXPECT_EQ(partition(1).oldest_live_at, partition(1).last_created_at);
  EXPECT_EQ(counter(store::CounterScope::partition, store::counter_id(Pid{1})), 10);
  EXPECT_EQ(counter(store::CounterScope::queue, store::counter_id(kDefaultTenant, "q")), 10);
}

// RT-1: rounds begin no more often than each interval.
TEST_F(RetentionScan, ARoundBeginsNoMoreOftenThanTheInterval) {
  configure({{"retentionEnabled", 1}, {"retentionSeconds", 1}});
  push({"a"});
  accept_ = false;
  begin();
  executor_.run_for(settings_.interval_us - 1);
  EXPECT_EQ(commands_.size(), 0U);
  executor_.run_for(1);
  EXPECT_EQ(commands_.size(), 1U);
  executor_.run_for(settings_.interval_us * 3);
  EXPECT_EQ(commands_.size(), 4U);  // a refused proposal is made again by the next round
}

// RT-4: 2,048 partitions a gate, then a pause by the rate; at most 1,024 moves in a command.
TEST_F(RetentionScan, LooksAt2048PartitionsAtATimeAtTheGivenRate) {
  settings_.partitions_per_s = 2'048;
  configure({{"retentionEnabled", 1}, {"retentionSeconds", 1}});
  push_numbered(5'000);
  begin();
  executor_.run_for(settings_.interval_us);
  EXPECT_EQ(moves(), 2'048U);
  executor_.run_for(kSecond - 1);
  EXPECT_EQ(moves(), 2'048U);
  executor_.run_for(2 * kSecond);
  EXPECT_EQ(moves(), 5'000U);
  for (const auto& command : commands_) EXPECT_LE(command.moves.size(), 1'024U);
}

// RT-4: proposals that nobody takes stop the walk; it goes on when they are taken.
TEST_F(RetentionScan, HoldsAtMost8192Proposals) {
  configure({{"retentionEnabled", 1}, {"retentionSeconds", 1}});
  push_numbered(12'000);
  hold_answers_ = true;
  begin();
  executor_.run_for(30 * kSecond);
  ASSERT_EQ(held_.size(), 1U);
  hold_answers_ = false;
  auto [command, done] = std::move(held_.front());
  run(std::move(command));
  done(true);
  executor_.run_ready();
  EXPECT_LE(moves(), RetentionScanner::kProposalsMax + 1'024);
  executor_.run_for(30 * kSecond);
  EXPECT_EQ(moves(), 12'000U);
}

// RT-5: at most the batch's appends in one step, and again 40 ms later until nothing is due.
TEST_F(RetentionScan, APartitionWithMoreDueIsJudgedAgain40MsLater) {
  settings_.batch_appends = 100;
  configure({{"retentionEnabled", 1}, {"retentionSeconds", 1}});
  for (int i = 0; i < 250; ++i) push({"a"});
  begin();
  executor_.run_for(settings_.interval_us);
  EXPECT_EQ(partition(1).log_start, 100);
  executor_.run_for(RetentionScanner::kAgainUs);
  EXPECT_EQ(partition(1).log_start, 200);
  executor_.run_for(RetentionScanner::kAgainUs);
  EXPECT_EQ(partition(1).log_start, 250);
  EXPECT_FALSE(partition(1).oldest_live_at);
  const auto told = commands_.size();
  executor_.run_for(settings_.interval_us / 2);
  EXPECT_EQ(commands_.size(), told);
}

// RT-5: 400 pushes a second for a minute, where one batch a round is 200 a second.
TEST_F(RetentionScan, APartitionWrittenFasterThan200PushesASecondDoesNotFallBehind) {
  configure({{"retentionEnabled", 1}, {"retentionSeconds", 1}, {"dedupWindowSeconds", 0}});
  begin();
  for (int i = 0; i < 60 * 400; ++i) {
    push({"a"});
    executor_.run_for(2'500);
  }
  EXPECT_LE(partition(1).last_offset - partition(1).log_start, 400 * (1 + 5 + 1));
}

// RT-9, B24: with the window on a queue without retention holds no row older than its window.
TEST_F(RetentionScan, RowsLeaveWithTheDedupWindowWhenTheQueueKeepsItsMessages) {
  configure({{"dedupWindowSeconds", 1'000}});
  push({"a"});
  clock_.advance(500 * kSecond);
  push({"a"});
  begin();
  clock_.advance(600 * kSecond);
  executor_.run_for(6 * kSecond);
  EXPECT_EQ(partition(1).rows_start, 1);
  EXPECT_EQ(partition(1).txns_start, 0);
  EXPECT_EQ(partition(1).log_start, 0);
  EXPECT_EQ(store_.rows(store::Keyspace::txns), 1U);
}

// RT-9: off, rows stay as long as their messages.
TEST_F(RetentionScan, RowsStayWithTheirMessagesWhenTheWindowIsOff) {
  settings_.rows_window = false;
  configure({{"dedupWindowSeconds", 1'000}});
  push({"a"});
  begin();
  clock_.advance(kDay);
  executor_.run_for(6 * kSecond);
  EXPECT_EQ(partition(1).rows_start, 0);
  EXPECT_EQ(commands_.size(), 0U);
}

// RT-2, RT-9: hash lists outlive the payloads, for QUEEN_RAFT_TXN_WINDOW_MIN_S at least, then go.
TEST_F(RetentionScan, HashListsOutliveTheirPayloads) {
  configure({{"retentionEnabled", 1}, {"retentionSeconds", 10}, {"dedupWindowSeconds", 20}});
  push({"a"});
  begin();
  clock_.advance(100 * kSecond);
  executor_.run_for(6 * kSecond);
  EXPECT_EQ(partition(1).log_start, 1);
  EXPECT_EQ(partition(1).txns_start, 0);
  clock_.advance(900 * kSecond);
  executor_.run_for(6 * kSecond);
  EXPECT_EQ(partition(1).txns_start, 1);
  EXPECT_EQ(store_.rows(store::Keyspace::txns), 0U);
}

// RT-7, B25: under a hold nothing younger than the cap goes without a pointer, and nothing younger than
// tEnd - 60 s with one; maxWaitTimeSeconds does not care.
TEST_F(RetentionScan, ASinkHoldKeepsWhatTheSinkHasNotCommitted) {
  machine::ConfigureCommand hold;
  hold.queue = "q";
  hold.integers = {
      {"retentionEnabled", 1}, {"retentionSeconds", 10}, {"retentionSinkHoldMaxSeconds", 10'000}};
  hold.texts = {{"retentionSinkHold", "lake"}};
  run(hold);
  const std::int64_t began = clock_.wall_us();
  for (int i = 0; i < 3; ++i) {
    push({"a"});
    clock_.advance(100 * kSecond);
  }
  begin();
  executor_.run_for(6 * kSecond);
  EXPECT_EQ(partition(1).log_start, 0);
  store::KvRow pointer;
  pointer.value = R"({"tEnd":")" + iso_micros(began + 170 * kSecond) + R"("})";
  {
    const auto gate = store_.write_gate();
    store_.put(store::Keyspace::kv, store::kv_key(kDefaultTenant, "queen-s3", "s3:lake:q:committed"),
               pointer.encode());
  }
  executor_.run_for(6 * kSecond);
  EXPECT_EQ(partition(1).log_start, 2);  // stamped 0 s and 100 s; tEnd - 60 s is 110 s
  hold.integers["maxWaitTimeSeconds"] = 10;
  run(hold);
  executor_.run_for(6 * kSecond);
  EXPECT_EQ(partition(1).log_start, 3);
}

// RT-13: an empty partition that nobody wrote to or read from for the limit goes; off, it stays.
TEST_F(RetentionScan, AnIdleEmptyPartitionIsRemovedAfterTheLimit) {
  settings_.cleanup_us = 30 * kDay;
  configure({{"retentionEnabled", 1}, {"retentionSeconds", 1}, {"dedupWindowSeconds", 0}});
  push({"a"});
  begin();
  clock_.advance(29 * kDay);
  executor_.run_for(6 * kSecond);
  EXPECT_EQ(store_.rows(store::Keyspace::partitions), 1U);
  clock_.advance(kDay);
  executor_.run_for(6 * kSecond);
  EXPECT_EQ(store_.rows(store::Keyspace::partitions), 0U);
}
TEST_F(RetentionScan, AnIdleEmptyPartitionStaysWhenCleanupIsOff) {
  configure({{"retentionEnabled", 1}, {"retentionSeconds", 1}, {"dedupWindowSeconds", 0}});
  push({"a"});
  begin();
  clock_.advance(400 * kDay);
  executor_.run_for(12 * kSecond);
  EXPECT_EQ(store_.rows(store::Keyspace::partitions), 1U);
}

// A node that takes no more writes proposes nothing.
TEST_F(RetentionScan, ProposesNothingOnAStoppedNode) {
  configure({{"retentionEnabled", 1}, {"retentionSeconds", 1}});
  push({"a"});
  stopped_ = true;
  begin();
  executor_.run_for(60 * kSecond);
  EXPECT_TRUE(commands_.empty());
  EXPECT_TRUE(executor_.idle());
}

// HD-18: what only the hold keeps is told by queue and round, and named once it is most of the logs.
TEST_F(RetentionScan, TellsWhatOnlyTheHoldOfASinkKeeps) {
  machine::ConfigureCommand hold;
  hold.queue = "q";
  hold.integers = {
      {"retentionEnabled", 1}, {"retentionSeconds", 1000}, {"retentionSinkHoldMaxSeconds", 100'000}};
  hold.texts = {{"retentionSinkHold", "lake"}};
  run(hold);
  for (int i = 0; i < 3; ++i) push({"a"});
  clock_.advance(2000 * kSecond);
  push({"a", "b"});
  begin();
  executor_.run_for(settings_.interval_us + kSecond);
  EXPECT_EQ(partition(1).log_start, 0) << "the sink has committed nothing";
  const auto held = scanner_->holds().shown();
  ASSERT_EQ(held.size(), 1U);
  EXPECT_EQ(held[0].queue, "q");
  EXPECT_EQ(held[0].sink, "lake");
  EXPECT_EQ(held[0].bytes, 30U) << "three messages of ten bytes are due";
  EXPECT_FALSE(scanner_->holds().warning(100));
  EXPECT_NE(scanner_->holds().warning(50)->find("for queue q (sink lake, 30 bytes)"), std::string::npos);

  hold.texts["retentionSinkHold"] = "";
  run(hold);
  executor_.run_for(3 * settings_.interval_us);
  EXPECT_EQ(partition(1).log_start, 3) << "without the hold they go";
  EXPECT_TRUE(scanner_->holds().shown().empty());
}

}  // namespace
}  // namespace queen::broker
