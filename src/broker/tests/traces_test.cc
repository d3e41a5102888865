// Lists of traces over a store in RAM, and the sweep in virtual time.
#include "broker/traces.h"

#include <gtest/gtest.h>

#include "broker/store_steps.h"
#include "broker/trace_sweep.h"
#include "machine/effects.h"
#include "machine/planner.h"

namespace queen::broker {
namespace {

const std::string kOwner{kDefaultTenant};
const std::string kStranger = "018f2b3c-0000-7000-8000-0000000000aa";

Uuid numbered(std::uint64_t number) {
  Uuid id;
  for (int i = 0; i < 8; ++i) id.bytes[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
  return id;
}

class TracesTest : public ::testing::Test {
 protected:
  // The n-th event of the test, with its number as data.
  void trace(const std::string& transaction_id, std::optional<Pid> pid, std::vector<std::string> names,
             const std::string& tenant = kOwner) {
    ++next_;
    machine::TraceAppend effect{tenant, pid, transaction_id, {}};
    effect.row.id = effect.row.trace_id = numbered(next_);
    effect.row.event_type = "event";
    effect.row.data = std::to_string(next_);
    effect.row.names = std::move(names);
    effect.row.created_at = static_cast<std::int64_t>(next_) * 10;
    run(effect);
  }
  void run(const machine::Effect& effect) {
    const auto gate = store_.write_gate();
    const auto status = machine::run_effect(store_, effect, EntryIndex{1}, 0, 1);
    ASSERT_TRUE(status) << status.error().what;
  }
  static std::string data_of(const TracePage& page) {
    std::string out;
    for (const auto& event : page.events) out += event.row.data + " ";
    return out + "of " + std::to_string(page.total);
  }
  std::string names_of(const TraceNamesPage& page) {
    std::string out;
    for (const auto& one : page.names) {
      out += one.name + ":" + std::to_string(one.traces) + "/" + std::to_string(one.messages) + "@" +
             std::to_string(one.last_seen) + " ";
    }
    return out + "of " + std::to_string(page.total);
  }

  store::Store store_;
  Traces traces_{store_};
  std::uint64_t next_ = 0;
};

TEST_F(TracesTest, AreListedNewestFirstWithTheTotal) {
  for (int i = 0; i < 4; ++i) trace("t", Pid{1}, {"n"});
  trace("t", Pid{2}, {"n"});
  trace("tt", Pid{1}, {"nn"});
  EXPECT_EQ(data_of(traces_.of_message(kOwner, Pid{1}, "t", {200, 0})), "4 3 2 1 of 4");
  EXPECT_EQ(data_of(traces_.of_message(kOwner, Pid{1}, "t", {2, 1})), "3 2 of 4");
  EXPECT_EQ(data_of(traces_.of_message(kOwner, Pid{1}, "t", {2, 3})), "1 of 4");
  EXPECT_EQ(data_of(traces_.of_message(kOwner, Pid{1}, "t", {2, 4})), "of 4");
  EXPECT_EQ(data_of(traces_.of_message(kOwner, Pid{3}, "t", {2, 0})), "of 0");
  EXPECT_EQ(data_of(traces_.by_name(kOwner, "n", {2, 0})), "5 4 of 5");
  EXPECT_EQ(data_of(traces_.by_name(kOwner, "n", {9, 3})), "2 1 of 5");
  EXPECT_EQ(data_of(traces_.by_name(kOwner, "", {9, 0})), "of 0");
}

// More than one step of the scan.
TEST_F(TracesTest, AreAllCountedHoweverManyThereAre) {
  const std::size_t count = 2 * kRowsPerStep + 5;
  for (std::size_t i = 0; i < count; ++i) trace("t" + std::to_string(i % 3), Pid{1}, {"n"});
  EXPECT_EQ(data_of(traces_.by_name(kOwner, "n", {1, 0})),
            std::to_string(count) + " of " + std::to_string(count));
  EXPECT_EQ(data_of(traces_.by_name(kOwner, "n", {1, count - 1})), "1 of " + std::to_string(count));
  EXPECT_EQ(names_of(traces_.names(kOwner, {})),
            "n:" + std::to_string(count) + "/3@" + std::to_string(count * 10) + " of 1");
}

TEST_F(TracesTest, NamesAreListedInOrderWithTheirMessages) {
  const std::string zero("b\0c", 3);
  trace("t", Pid{1}, {"b", zero});
  trace("t", Pid{1}, {"b"});
  trace("u", Pid{1}, {"b", "a"});
  trace("t", std::nullopt, {"b"});
  trace("x", Pid{1}, {"ba"});
  trace("x", Pid{1}, {"z"}, kStranger);
  EXPECT_EQ(names_of(traces_.names(kOwner, {})), "a:1/1@30 b:4/3@40 " + zero + ":1/1@10 ba:1/1@50 of 4");
  EXPECT_EQ(names_of(traces_.names(kOwner, {1, 1})), "b:4/3@40 of 4");
  EXPECT_EQ(names_of(traces_.names(kOwner, {5, 4})), "of 4");
  EXPECT_EQ(names_of(traces_.names(kStranger, {})), "z:1/1@60 of 1");
}

// Names as many as one gate looks at, and one more.
TEST_F(TracesTest, NamesAreAllCountedHoweverManyThereAre) {
  for (std::size_t i = 0; i <= kRowsPerStep; ++i) trace("t", Pid{1}, {"n" + std::to_string(i)});
  EXPECT_EQ(traces_.names(kOwner, {1, 0}).total, kRowsPerStep + 1);
}

TEST_F(TracesTest, SayWhatTheyAreOf) {
  run(machine::PartitionCreate{Pid{7}, numbered(1'007), kOwner, "q", "p", 1});
  trace("t", Pid{7}, {"n"});
  trace("t", Pid{8}, {"n"});
  trace("t", std::nullopt, {"n"});
  const auto events = traces_.by_name(kOwner, "n", {9, 0}).events;
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].pid, std::nullopt);
  EXPECT_EQ(events[1].pid, Pid{8});
  EXPECT_EQ(events[1].queue, std::nullopt);
  EXPECT_EQ(events[2].queue, "q");
  EXPECT_EQ(events[2].partition, "p");
  EXPECT_EQ(events[2].transaction_id, "t");
  EXPECT_EQ(traces_.partition(kOwner, numbered(1'007).str()), Pid{7});
  EXPECT_EQ(traces_.partition(kOwner, "7"), Pid{7});
  EXPECT_EQ(traces_.partition(kStranger, "7"), std::nullopt);
}

// RT-16: a step each second; the next one at once while there are more.
TEST(TraceSweepTest, GoesOnAtOnceWhileThereAreMore) {
  ManualClock clock;
  ManualExecutor timers(clock);
  SeededRandom random(1);
  std::vector<std::int64_t> at;
  int more = 2;
  const Submit submit = [&](machine::Command command, UniqueFunction<void(Answer<machine::Outcome>)> done) {
    const auto& step = std::get<machine::TraceExpireCommand>(command.body);
    EXPECT_EQ(step.retention_us, 5);
    EXPECT_EQ(step.limit, 3U);
    at.push_back(clock.mono_us());
    if (at.size() == 4) return done(tl::unexpected(Refusal{"retry", "no"}));
    done(machine::Outcome{{}, {}, machine::TraceExpireOutcome{more-- > 0}});
  };
  TraceSweep sweep(submit, timers, clock, random, {5, 3});
  const std::int64_t start = clock.mono_us();
  sweep.start();
  timers.run_for(3'100'000);
  ASSERT_EQ(at.size(), 5U);
  EXPECT_EQ(at[0] - start, 1'000'000);
  EXPECT_LT(at[2] - at[0], 100'000);
  EXPECT_EQ(at[3] - at[2], 1'000'000);
  EXPECT_EQ(at[4] - at[3], 1'000'000);
}

}  // namespace
}  // namespace queen::broker
