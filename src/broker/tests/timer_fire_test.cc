// Which timers a step takes, and when steps go, in virtual time over a store in RAM.
#include "broker/timer_fire.h"

#include <gmock/gmock.h>

#include <deque>

#include "broker/timer_due.h"
#include "broker/timer_reads.h"
#include "machine/planner.h"
#include "qlog/record.h"

namespace queen::broker {
namespace {

using ::testing::ElementsAre;

const std::string kOwner{kDefaultTenant};
const std::string kOther = "00000000-0000-0000-0000-0000000000aa";

struct Given {
  std::string queue = "q", key{}, partition = "p", id{}, payload = "1";
  std::int64_t due = 0;
  std::uint32_t attempts = 0;
  bool raw = false;
};

void run_effect(store::Store& store, const machine::Effect& effect) {
  const auto gate = store.write_gate();
  const auto status = machine::run_effect(store, effect, EntryIndex{1}, 0, 1);
  ASSERT_TRUE(status) << status.error().what;
}
void put(store::Store& store, const Given& given, const std::string& tenant = kOwner) {
  store::TimerRow row;
  row.partition = given.partition;
  row.deliver_at = given.due;
  row.payload = given.payload;
  row.raw = given.raw;
  row.transaction_id = given.id.empty() ? given.key : given.id;
  row.attempts = given.attempts;
  if (given.attempts > 0) row.last_error = "before";
  run_effect(store, machine::TimerUpsert{tenant, given.queue, given.key, row});
}
std::vector<std::string> keys_of(const machine::TimerFireCommand& fire) {
  std::vector<std::string> out;
  for (const auto& timer : fire.timers) out.push_back(timer.key);
  return out;
}
std::vector<qlog::MessageFrame> frames_of(const machine::PushBatch& batch) {
  return qlog::decode_frames(batch.frames, static_cast<std::uint32_t>(batch.items())).value();
}

class DueTest : public ::testing::Test {
 protected:
  DueTimers due(std::int64_t now) { return due_timers(store_, now, settings_, entry_bytes_max_); }
  std::vector<std::string> keys(std::int64_t now) {
    const DueTimers step = due(now);
    return step.tenants.empty() ? std::vector<std::string>() : keys_of(step.tenants.front().fire);
  }
  store::Store store_;
  TimerSettings settings_;
  std::uint64_t entry_bytes_max_ = 96ULL << 20;
};

TEST_F(DueTest, EarliestComesFirstAndNothingThatIsNotDue) {
  put(store_, {.key = "c", .due = 30});
  put(store_, {.key = "a", .due = 20});
  put(store_, {.key = "b", .due = 10});
  put(store_, {.key = "d", .due = 31});
  EXPECT_THAT(keys(30), ElementsAre("b", "a", "c"));
  EXPECT_TRUE(due(9).tenants.empty());
}

TEST_F(DueTest, AStepHasItsBounds) {
  for (int i = 0; i < 5; ++i)
    put(store_, {.key = std::to_string(i), .payload = std::string(100, '1'), .due = i});
  settings_.fire_batch = 3;
  EXPECT_THAT(keys(9), ElementsAre("0", "1", "2"));
  settings_.fire_batch = 256;
  settings_.fire_bytes_max = 700;
  EXPECT_THAT(keys(9), ElementsAre("0", "1"));
  settings_.fire_bytes_max = 1;
  EXPECT_THAT(keys(9), ElementsAre("0"));
}

// Else a batch of small ones could be refused for its size although each of them fits.
TEST_F(DueTest, AStepIsNeverLargerThanAnEntryUnlessOneTimerIs) {
  for (int i = 0; i < 50; ++i)
    put(store_,
        {.key = std::to_string(i), .payload = std::string(static_cast<std::size_t>(i), '1'), .due = i});
  entry_bytes_max_ = 1000;
  std::size_t timers = 0;
  const DueTimers step = due(99);
  for (const auto& batch : step.tenants.at(0).fire.push.batches) {
    EXPECT_LE(batch.weight(), entry_bytes_max_);
    timers += batch.items();
  }
  EXPECT_GT(timers, 5U);
  EXPECT_EQ(step.tenants.at(0).fire.push.batch_bytes_max, entry_bytes_max_);
}

TEST_F(DueTest, TenantsShareNoCommandAndPartitionsNoBatch) {
  put(store_, {.key = "a", .due = 1});
  put(store_, {.key = "b", .due = 2}, kOther);
  put(store_, {.key = "c", .due = 3});
  put(store_, {.key = "d", .partition = "p2", .due = 4});
  put(store_, {.queue = "q2", .key = "e", .due = 5});
  const DueTimers step = due(9);
  ASSERT_EQ(step.tenants.size(), 2U);
  EXPECT_EQ(step.tenants[0].tenant, kOwner);
  EXPECT_THAT(keys_of(step.tenants[0].fire), ElementsAre("a", "c", "d", "e"));
  EXPECT_THAT(keys_of(step.tenants[1].fire), ElementsAre("b"));
  const auto& batches = step.tenants[0].fire.push.batches;
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_EQ(batches[0].items(), 2U);
  EXPECT_EQ(batches[1].partition, "p2");
  EXPECT_EQ(batches[2].queue, "q2");
  EXPECT_EQ(step.tenants[0].fire.timers[1].item, 1U);
  EXPECT_EQ(step.tenants[0].fire.timers[3].batch, 2U);
}

TEST_F(DueTest, TheMessageIsTheTimersOwn) {
  store::TimerRow row;
  row.partition = "p";
  row.deliver_at = 1;
  row.payload = R"({"a":1})";
  row.encrypted = true;
  row.transaction_id = "x";
  row.message_id.bytes[15] = 7;
  row.producer_sub = "svc";
  run_effect(store_, machine::TimerUpsert{kOwner, "q", "k", row});
  put(store_, {.key = "null", .payload = "null", .due = 2});
  put(store_, {.key = "raw", .payload = "null", .due = 3, .raw = true});
  const DueTimers step = due(9);
  const machine::PushBatch& batch = step.tenants.at(0).fire.push.batches.at(0);
  const auto frames = frames_of(batch);
  EXPECT_EQ(frames[0].payload, R"({"a":1})");
  EXPECT_TRUE(frames[0].encrypted);
  EXPECT_EQ(frames[0].transaction_id, "x");
  EXPECT_EQ(frames[0].message_id, row.message_id);
  EXPECT_EQ(frames[0].producer_sub, "svc");
  EXPECT_FALSE(frames[0].trace_id);
  EXPECT_EQ(BytesView(batch.hashes).substr(0, 16), xxh3_128("x").view());
  EXPECT_TRUE(frames[1].null_payload);
  EXPECT_FALSE(frames[2].null_payload);
  EXPECT_EQ(frames[2].payload, R"({"_raw_b64":"bnVsbA=="})");
  EXPECT_TRUE(batch.sealed);
}

TEST_F(DueTest, TheLetterComesWithTheLastTry) {
  settings_.attempts_max = 3;
  put(store_, {.key = "a", .payload = "{}", .due = 1, .attempts = 1});
  put(store_, {.key = "b", .payload = "{}", .due = 2, .attempts = 2});
  put(store_, {.key = "c", .payload = "\xFF", .due = 3, .attempts = 2, .raw = true});
  const DueTimers step = due(9);
  const auto& timers = step.tenants.at(0).fire.timers;
  EXPECT_FALSE(timers[0].letter);
  EXPECT_EQ(timers[1].letter, "{}");
  EXPECT_EQ(timers[2].letter, R"({"_raw_b64":"/w=="})");
}

// A planner of its own behind TimerFire, which answers when the test says so.
class FireTest : public ::testing::Test {
 protected:
  FireTest() { clock_.advance(1'000'000); }
  void start() {
    fire_.emplace(
        [this](machine::Command command, UniqueFunction<void(Answer<machine::Outcome>)> done) {
          steps_.push_back(keys_of(std::get<machine::TimerFireCommand>(command.body)));
          commands_.push_back(std::move(command));
          dones_.push_back(std::move(done));
        },
        TimerFire::World{state_, timers_, clock_, random_, [this] { return lead_; }, nullptr,
                         Logger(null_log(), "rsm")},
        settings_, 96ULL << 20);
    fire_->start();
    timers_.run_ready();
  }
  std::int64_t now() { return clock_.wall_us(); }
  // The oldest step took place: its timers go.
  void answer() {
    const auto fire = std::get<machine::TimerFireCommand>(commands_.front().body);
    for (const auto& timer : fire.timers)
      run_effect(store_, machine::TimerDelete{commands_.front().tenant, timer.queue, timer.key});
    machine::TimerFireOutcome outcome;
    outcome.fired = static_cast<std::uint32_t>(fire.timers.size());
    reply(machine::Outcome{{}, {}, outcome});
  }
  void refuse(const std::string& code) { reply(tl::unexpected(Refusal{code, "not now"})); }
  void reply(Answer<machine::Outcome> answer) {
    auto done = std::move(dones_.front());
    dones_.pop_front();
    commands_.pop_front();
    done(std::move(answer));
    timers_.run_ready();
  }

  ManualClock clock_;
  ManualExecutor timers_{clock_};
  SeededRandom random_{1};
  store::Store store_;
  StateReads state_{store_};
  TimerSettings settings_;
  std::int64_t lead_ = 0;
  std::vector<std::vector<std::string>> steps_;
  std::deque<machine::Command> commands_;
  std::deque<UniqueFunction<void(Answer<machine::Outcome>)>> dones_;
  std::optional<TimerFire> fire_;
};

TEST_F(FireTest, LooksOncePerTick) {
  start();
  put(store_, {.key = "k", .due = now() + 70'000});
  timers_.run_for(60'000);
  EXPECT_TRUE(steps_.empty());
  timers_.run_for(50'000);
  EXPECT_THAT(steps_, ElementsAre(ElementsAre("k")));
}

TEST_F(FireTest, GoesOnAtOnceWhileTimersAreDue) {
  settings_.fire_batch = 2;
  for (int i = 0; i < 5; ++i) put(store_, {.key = std::to_string(i), .due = i});
  start();
  answer();
  answer();
  EXPECT_THAT(steps_, ElementsAre(ElementsAre("0", "1"), ElementsAre("2", "3"), ElementsAre("4")));
}

TEST_F(FireTest, NeverSubmitsATimerTwiceWhileItsStepIsOnItsWay) {
  put(store_, {.key = "k", .due = 1});
  start();
  timers_.run_for(500'000);
  fire_->scheduled(1);
  timers_.run_ready();
  EXPECT_EQ(steps_.size(), 1U);
  answer();
  timers_.run_for(500'000);
  EXPECT_EQ(steps_.size(), 1U);
}

TEST_F(FireTest, AStepEndsWithTheLastOfItsTenants) {
  settings_.fire_batch = 2;
  put(store_, {.key = "a", .due = 1});
  put(store_, {.key = "b", .due = 2}, kOther);
  put(store_, {.key = "c", .due = 3});
  start();
  EXPECT_EQ(steps_.size(), 2U);
  answer();
  timers_.run_for(200'000);
  EXPECT_EQ(steps_.size(), 2U);
  answer();
  EXPECT_THAT(steps_.back(), ElementsAre("c"));
}

TEST_F(FireTest, OneThatIsScheduledWhenItIsDueDoesNotWaitForTheTick) {
  start();
  put(store_, {.key = "k", .due = now()});
  fire_->scheduled(now());
  timers_.run_ready();
  EXPECT_EQ(steps_.size(), 1U);
  answer();
  put(store_, {.key = "later", .due = now() + 1});
  fire_->scheduled(now() + 1);
  timers_.run_ready();
  EXPECT_EQ(steps_.size(), 1U);
}

TEST_F(FireTest, ARefusedStepWaitsAndLosesNothing) {
  put(store_, {.key = "k", .due = 1});
  start();
  refuse("storage_full");
  timers_.run_for(999'000);
  fire_->scheduled(1);
  timers_.run_ready();
  EXPECT_EQ(steps_.size(), 1U);
  timers_.run_for(60'000);
  ASSERT_EQ(steps_.size(), 2U);
  EXPECT_THAT(steps_.back(), ElementsAre("k"));
  answer();
}

TEST_F(FireTest, AStepThatMovedNothingIsTriedAgainWithTheTick) {
  put(store_, {.key = "k", .due = 1});
  start();
  machine::TimerFireOutcome passed;
  passed.passed = 1;
  reply(machine::Outcome{{}, {}, passed});
  EXPECT_EQ(steps_.size(), 1U);
  timers_.run_for(50'000);
  EXPECT_EQ(steps_.size(), 2U);
}

TEST_F(FireTest, FollowsLogTimeThatIsAheadOfTheClock) {
  put(store_, {.key = "k", .due = now() + 5'000'000});
  lead_ = 5'000'000;
  start();
  EXPECT_EQ(steps_.size(), 1U);
}

TEST_F(FireTest, TheOperatorsSwitchHoldsAllBackAndLosesNone) {
  const auto turn = [&](bool on) {
    run_effect(store_, machine::FlagSet{std::string(kTimersFireSwitch),
                                        Bytes(on ? std::string_view("1") : kSwitchedOff)});
  };
  turn(false);
  put(store_, {.key = "k", .due = 1});
  start();
  timers_.run_for(500'000);
  EXPECT_TRUE(steps_.empty());
  turn(true);
  timers_.run_for(50'000);
  EXPECT_EQ(steps_.size(), 1U);
}

TEST_F(FireTest, WithoutATickNothingFires) {
  settings_.tick_us = 0;
  put(store_, {.key = "k", .due = 1});
  start();
  fire_->scheduled(1);
  timers_.run_for(10'000'000);
  EXPECT_TRUE(steps_.empty());
}

class TimerReadsTest : public ::testing::Test {
 protected:
  std::vector<std::string> page(const std::string& after, std::size_t limit, bool truncated) {
    const TimerPage found = reads_.page(kOwner, "q", after, limit);
    EXPECT_EQ(found.truncated, truncated);
    std::vector<std::string> out;
    for (const TimerView& timer : found.timers) out.push_back(timer.key);
    return out;
  }
  store::Store store_;
  StateReads state_{store_};
  TimerReads reads_{state_};
};

TEST_F(TimerReadsTest, PagesFollowTheBytesOfKeysOfOneQueueOfOneTenant) {
  const std::string zero("a\0b", 3);
  for (const std::string& key : {std::string("b"), std::string("a"), zero, std::string("a/1")})
    put(store_, {.key = key});
  put(store_, {.queue = "qq", .key = "x"});
  put(store_, {.key = "y"}, kOther);
  EXPECT_THAT(page("", 10, false), ElementsAre("a", zero, "a/1", "b"));
  EXPECT_THAT(page("", 2, true), ElementsAre("a", zero));
  EXPECT_THAT(page(zero, 2, false), ElementsAre("a/1", "b"));
  EXPECT_THAT(page("a0", 2, false), ElementsAre("b"));
  EXPECT_THAT(page("b", 2, false), ElementsAre());
}

TEST_F(TimerReadsTest, PagesHaveNoPayloadAndPeekHas) {
  put(store_, {.key = "k", .payload = "7"});
  EXPECT_EQ(reads_.page(kOwner, "q", "", 1).timers.at(0).row.payload, "");
  EXPECT_EQ(reads_.peek(kOwner, "q", "k")->row.payload, "7");
  EXPECT_FALSE(reads_.peek(kOwner, "q", "K"));
  EXPECT_FALSE(reads_.peek(kOther, "q", "k"));
}

TEST_F(TimerReadsTest, CountIsExactOverMoreThanAStep) {
  for (int i = 0; i < 3000; ++i) put(store_, {.key = "in/" + std::to_string(i)});
  put(store_, {.key = "in"});
  put(store_, {.key = "io"});
  put(store_, {.queue = "q2", .key = "in/1"});
  EXPECT_EQ(reads_.count(kOwner, "q", "in/"), 3000U);
  EXPECT_EQ(reads_.count(kOwner, "q", "in/1"), 1111U);
  EXPECT_EQ(reads_.count(kOwner, "q", "i"), 3002U);
  EXPECT_EQ(reads_.count(kOwner, "q", "z"), 0U);
}

}  // namespace
}  // namespace queen::broker
