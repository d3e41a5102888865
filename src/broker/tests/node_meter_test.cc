// Cells, periods and rows of the meter, in virtual time on a disk in memory.
#include "broker/node_meter.h"

#include <gtest/gtest.h>

#include "disk/ram_disk.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

constexpr std::int64_t kMinute = 60'000'000;
const std::string kTenant{kDefaultTenant};

struct FakeProcess final : ProcessProbe {
  ProcessUse use() override { return now; }
  ProcessUse now{0, 0, 1000, 5000};
};

class NodeMeterTest : public ::testing::Test {
 protected:
  NodeMeterTest() {
    make_queue("orders");
    settings_.flush_us = kMinute;
    settings_.process = &process_;
    reopen();
  }
  void make_queue(const std::string& name) {
    const auto gate = store_.write_gate();
    store_.put(store::Keyspace::queues, store::queue_key(kTenant, name), store::QueueRow{}.encode());
  }
  void reopen() {
    meter_.emplace(NodeMeter::Parts{store_, disk_, clock_, files_, timers_, [this] { return gauges_; },
                                    [this] { return parked_; }, [this] { return gauges_.storage_full; }},
                   "/data", settings_, Logger(null_log(), "rsm"));
    meter_->start();
  }
  std::uint64_t pushed(std::int64_t from, std::int64_t to) {
    std::uint64_t out = 0;
    for (const auto& row : meter_->queue_rows(kTenant, from, to)) out += row.ops[Op::push_messages];
    return out;
  }
  std::uint64_t pushed_ever() { return pushed(0, clock_.wall_us()); }

  store::Store store_;
  disk::RamDisk disk_;
  ManualClock clock_{1'700'000'040'000'000};  // a whole minute
  ManualExecutor files_{clock_}, timers_{clock_};
  FakeProcess process_;
  NodeGauges gauges_;
  std::vector<ParkedPops> parked_;
  MeterSettings settings_;
  std::optional<NodeMeter> meter_;
};

TEST_F(NodeMeterTest, TheMinuteThatRunsCountsAtOnce) {
  meter_->of(kTenant, "orders").add(Op::push_messages, 3);
  EXPECT_EQ(pushed_ever(), 3U);
  const auto rows = meter_->node_rows(0, clock_.wall_us());
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].ops[Op::push_messages], 3U);
  EXPECT_EQ(meter_->written_until_us(), std::nullopt);
}

TEST_F(NodeMeterTest, APeriodIsAMinuteOfTheClockAndCountsOnce) {
  const std::int64_t first = clock_.wall_us();
  const Tally orders = meter_->of(kTenant, "orders");
  orders.add(Op::push_messages, 3);
  files_.run_for(kMinute + 1'000'000);
  orders.add(Op::push_messages, 4);
  EXPECT_EQ(pushed(first, first), 3U);
  EXPECT_EQ(pushed(first + kMinute, first + kMinute), 4U);
  files_.run_for(kMinute);
  EXPECT_EQ(pushed(first, first), 3U);
  EXPECT_EQ(pushed(first + kMinute, first + kMinute), 4U);
  EXPECT_EQ(pushed_ever(), 7U);
  EXPECT_EQ(meter_->totals()[Op::push_messages], 7U);
  EXPECT_EQ(meter_->written_until_us(), first + 2 * kMinute);
}

TEST_F(NodeMeterTest, RowsOutliveARestartAndTotalsDoNot) {
  meter_->of(kTenant, "orders").add(Op::push_messages, 3);
  files_.run_for(kMinute + 1);
  meter_->of(kTenant, "orders").add(Op::push_messages, 4);
  meter_->finish();
  reopen();
  files_.run_ready();
  EXPECT_EQ(pushed_ever(), 7U);
  EXPECT_EQ(meter_->totals()[Op::push_messages], 0U);
  EXPECT_TRUE(meter_->written_until_us());
}

TEST_F(NodeMeterTest, FilesThatAreNoneStopNothing) {
  ASSERT_TRUE(disk_.make_dirs("/data/figures"));
  auto file = disk_.open("/data/figures/node-472222-1.rows", disk::Open::create);
  ASSERT_TRUE((*file)->pwrite(0, "no figures, and long enough for a header"));
  reopen();
  meter_->of(kTenant, "orders").add(Op::push_messages, 1);
  files_.run_for(kMinute + 1);
  EXPECT_EQ(pushed_ever(), 1U);
  EXPECT_FALSE(meter_->node_rows(0, clock_.wall_us()).empty());
}

TEST_F(NodeMeterTest, QueuesThatAreNotThereHaveNoRow) {
  meter_->of(kTenant, "never made").add(Op::pop_empty, 9);
  files_.run_for(kMinute + 1);
  EXPECT_TRUE(meter_->last_rows().empty());
  EXPECT_TRUE(meter_->queue_rows(kTenant, 0, clock_.wall_us()).empty());
  EXPECT_EQ(meter_->totals()[Op::pop_empty], 9U);
}

TEST_F(NodeMeterTest, OneTenantSeesItsOwnQueues) {
  meter_->of(kTenant, "orders").add(Op::push_messages, 3);
  EXPECT_TRUE(meter_->queue_rows("00000000-0000-0000-0000-0000000000aa", 0, clock_.wall_us()).empty());
}

TEST_F(NodeMeterTest, WaitingPopsAreOfTheEndOfThePeriod) {
  parked_ = {{kTenant, "orders", 5}};
  files_.run_for(kMinute + 1);
  ASSERT_EQ(meter_->last_rows().size(), 1U);
  EXPECT_EQ(meter_->last_rows()[0].parked, 5U);
  parked_ = {};
  files_.run_for(kMinute);
  EXPECT_TRUE(meter_->last_rows().empty());
}

TEST_F(NodeMeterTest, TheLongestLagIsThatOfThePeriod) {
  meter_->of(kTenant, "orders").add(LagSum{1, 9'000, 9'000});
  meter_->of(kTenant, "orders").add(Op::pop_messages, 1);
  files_.run_for(kMinute + 1);
  meter_->of(kTenant, "orders").add(LagSum{2, 3'000, 2'000});
  meter_->of(kTenant, "orders").add(Op::pop_messages, 2);
  ASSERT_EQ(meter_->last_rows().size(), 1U);
  EXPECT_EQ(meter_->last_rows()[0].ops.lag.max_us, 9'000U);
  files_.run_for(kMinute);
  EXPECT_EQ(meter_->last_rows()[0].ops.lag.max_us, 2'000U);
  EXPECT_EQ(meter_->totals().lag.count, 3U);
}

TEST_F(NodeMeterTest, GaugesAreLookedAtSeveralTimesAMinute) {
  gauges_.log_bytes = 100;
  process_.now.cpu_user_us = 0;
  files_.run_for(30'000'000);
  gauges_.log_bytes = 300;
  process_.now.cpu_user_us = 2'500'000;
  files_.run_for(30'000'001);
  const auto rows = meter_->node_rows(clock_.wall_us() - 2 * kMinute, clock_.wall_us());
  ASSERT_EQ(rows.size(), 2U);  // the one that was written, and the one that runs
  const GaugeLooks& looks = rows[0].gauges;
  EXPECT_GE(looks.looks, 12U);
  EXPECT_EQ(looks[Gauge::log_bytes].min, 100U);
  EXPECT_EQ(looks[Gauge::log_bytes].max, 300U);
  EXPECT_EQ(looks[Gauge::log_bytes].last, 300U);
  EXPECT_EQ(looks[Gauge::rss_bytes].last, 1000U);
  EXPECT_EQ(looks[Gauge::cpu_user].max, 5'000U);  // 2.5 s of 5 s, in percent times 100
}

TEST_F(NodeMeterTest, AFullVolumeKeepsTheRowsOfTheNodeAlone) {
  gauges_.storage_full = true;
  meter_->of(kTenant, "orders").add(Op::push_messages, 3);
  files_.run_for(kMinute + 1);
  EXPECT_EQ(pushed_ever(), 0U);
  EXPECT_EQ(meter_->last_rows().size(), 1U);  // what is scraped needs no disk
  EXPECT_EQ(meter_->node_rows(0, clock_.wall_us()).size(), 2U);
}

TEST_F(NodeMeterTest, ATimerThatComesLateIsLoopLag) {
  timers_.run_for(100'000);
  clock_.advance(150'000);  // the next was due 50 ms ago
  timers_.run_for(0);
  const LagSum lag = meter_->loop_lag();
  EXPECT_EQ(lag.count, 2U);
  EXPECT_EQ(lag.max_us, 50'000U);
}

TEST_F(NodeMeterTest, DeadLettersAreCountedOverAllTenants) {
  const std::string other = "00000000-0000-0000-0000-0000000000aa";
  {
    const auto gate = store_.write_gate();
    store_.put(store::Keyspace::queues, store::queue_key(other, "bills"), store::QueueRow{}.encode());
    store_.put(store::Keyspace::counters,
               store::counter_key(store::CounterScope::queue, store::counter_id(other, "bills"),
                                  store::Counter::dlq_count),
               store::encode_i64_row(4));
  }
  const auto depths = meter_->dead_letters();
  ASSERT_EQ(depths.size(), 1U);
  EXPECT_EQ(depths[0].tenant, other);
  EXPECT_EQ(depths[0].queue, "bills");
  EXPECT_EQ(depths[0].count, 4U);
}

// Cells of a queue that nobody uses go, and what is counted through a handle that was kept is not lost.
TEST(QueueCells, KeepWhatIsInUse) {
  QueueCells cells;
  const OpCellsPtr held = cells.of(kTenant, "held");
  cells.of(kTenant, "idle");
  EXPECT_TRUE(cells.take().empty());
  held->add(Op::push_messages, 2);
  const auto rows = cells.take();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].queue, "held");
  EXPECT_EQ(rows[0].ops[Op::push_messages], 2U);
}

TEST(QueueCells, AreBounded) {
  QueueCells cells;
  std::size_t refused = 0;
  for (std::size_t i = 0; i < QueueCells::kQueuesMax + 1000; ++i)
    refused += cells.of(kTenant, "queue-" + std::to_string(i)) == nullptr ? 1 : 0;
  EXPECT_GE(refused, 1000U);
  EXPECT_NE(cells.of(kTenant, "queue-0"), nullptr);
}

}  // namespace
}  // namespace queen::broker
