// Seeks, subscriptions and renewals (api-messaging.md 9.2, 9.3, 6).
#include <gtest/gtest.h>

#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;

PopCommand pop_of(Node& node, const std::string& group, Subscription::Mode mode = Subscription::Mode::all) {
  PopCommand pop = node.pop_command(100);
  pop.group = group;
  pop.partitions_max = 64;
  pop.lease_seconds = 30;
  pop.subscription.mode = mode;
  return pop;
}
SeekCommand seek_to(std::optional<std::int64_t> since, const std::string& group = "g") {
  SeekCommand seek;
  seek.queue = "q";
  seek.group = group;
  seek.since_us = since;
  return seek;
}
AckItemOutcome ack(Node& node, Pid pid, const std::string& id, const std::string& lease) {
  AckCommand command;
  command.group = "g";
  command.items.push_back(node.ack_item(pid, id, AckStatus::completed, lease));
  return node.one<AckOutcome>(command).items[0];
}
// Three appends in each partition, a second apart; gives the stamps.
std::vector<std::int64_t> three_each(Node& node, const std::vector<std::string>& partitions) {
  std::vector<std::int64_t> stamps;
  for (const char* id : {"a", "b", "c"}) {
    node.now += kSecond;
    stamps.push_back(node.now);
    for (const std::string& partition : partitions) node.push(partition, {id});
  }
  return stamps;
}

// G-1: the first message stamped at or after the time, the end when there is none.
TEST(Seek, PutsTheCursorBeforeTheFirstMessageThatIsLateEnough) {
  Node node;
  const auto stamps = three_each(node, {"p"});
  const std::vector<std::pair<std::optional<std::int64_t>, std::int64_t>> rows = {
      {0, -1},
      {stamps[0] - 1, -1},
      {stamps[1] - kSecond / 2, 0},
      {stamps[2] - kSecond / 2, 1},
      {stamps[2] + kSecond, 2},
      {std::nullopt, 2}};
  for (const auto& [since, committed] : rows) {
    const auto out = node.one<SeekOutcome>(seek_to(since));
    EXPECT_TRUE(out.found);
    EXPECT_EQ(out.partitions, 1U);
    EXPECT_EQ(node.cursor(Pid{1}, "g")->committed, committed) << since.value_or(-1);
  }
}

// G-1: never below the log start.
TEST(Seek, GoesNoFurtherBackThanWhatIsRetained) {
  Node node;
  three_each(node, {"p"});
  Entry entry;
  entry.now_us = node.now + kSecond;
  entry.pid_base = 2;
  entry.kv_version_base = 1;
  Watermark mark;
  mark.pid = Pid{1};
  mark.log_start = 2;
  entry.effects = {mark};
  entry.commands = {{numbered_uuid(9'000), 0, 1}};
  node.apply(entry);
  node.one<SeekOutcome>(seek_to(0));
  EXPECT_EQ(node.cursor(Pid{1}, "g")->committed, 1);
}

// G-2: every partition gets a cursor; those made later follow the registration.
TEST(Seek, MovesEveryPartitionThatExistsAndNoLaterOne) {
  Node node;
  node.one<PopOutcome>(pop_of(node, "g"));
  three_each(node, {"p1", "p2", "p3"});
  EXPECT_EQ(node.one<SeekOutcome>(seek_to(std::nullopt)).partitions, 3U);
  for (std::uint64_t pid = 1; pid <= 3; ++pid) {
    EXPECT_EQ(node.cursor(Pid{pid}, "g")->committed, 2);
    EXPECT_FALSE(node.pending(Pid{pid}, "g"));
  }
  node.push("late", {"x"});
  EXPECT_FALSE(node.cursor(Pid{4}, "g"));
  const auto out = node.one<PopOutcome>(pop_of(node, "g"));
  ASSERT_EQ(out.claims.size(), 1U);
  EXPECT_EQ(out.claims[0].partition, "late");
}

// 9.2: the partition route moves that one alone.
TEST(Seek, OfOnePartitionLeavesTheOthers) {
  Node node;
  three_each(node, {"p1", "p2"});
  SeekCommand seek = seek_to(std::nullopt);
  seek.partition = "p2";
  EXPECT_EQ(node.one<SeekOutcome>(seek).partitions, 1U);
  EXPECT_FALSE(node.cursor(Pid{1}, "g"));
  EXPECT_EQ(node.cursor(Pid{2}, "g")->committed, 2);
  seek.partition = "nowhere";
  EXPECT_FALSE(node.one<SeekOutcome>(seek).found);
  seek.queue = "nowhere";
  seek.partition.reset();
  EXPECT_FALSE(node.one<SeekOutcome>(seek).found);
}

// G-3, L-3: leases end, and what becomes available is pending at once.
TEST(Seek, EndsLeasesAndArmsWhatBecomesAvailable) {
  Node node;
  const auto stamps = three_each(node, {"p"});
  node.one<PopOutcome>(pop_of(node, "g"));
  const std::string lease = node.last_lease;
  ASSERT_TRUE(ack(node, Pid{1}, "b", lease).success);
  node.one<SeekOutcome>(seek_to(stamps[0] - 1));
  EXPECT_FALSE(node.cursor(Pid{1}, "g")->worker);
  EXPECT_EQ(node.store.rows(store::Keyspace::leases_by_worker), 0U);
  EXPECT_EQ(ack(node, Pid{1}, "c", lease).error, "invalid or expired lease");
  EXPECT_LE(node.pending(Pid{1}, "g").value_or(node.now + kSecond), node.now + 1'000);
  const auto out = node.one<PopOutcome>(pop_of(node, "g"));
  ASSERT_EQ(out.claims.size(), 1U);
  EXPECT_EQ(out.claims[0].first, 0U);
  EXPECT_EQ(out.claims[0].delivery_attempt, 1U);
}

// W-4: the entry says whose pops are to be woken.
TEST(Seek, SaysThatTheQueueHasSomethingNew) {
  Node node;
  three_each(node, {"p"});
  node.one<SeekOutcome>(seek_to(std::nullopt));
  PlannedCycle cycle = node.plan({node.command(seek_to(0))});
  ASSERT_TRUE(cycle.entry);
  const Applied applied = node.apply(*cycle.entry);
  ASSERT_EQ(applied.queues.size(), 1U);
  EXPECT_EQ(applied.queues[0].queue, "q");
}

// G-4, EN-7
TEST(Seek, ARepeatChangesNothing) {
  Node node;
  const auto stamps = three_each(node, {"p1", "p2"});
  node.one<SeekOutcome>(seek_to(stamps[1] - 1));
  const std::size_t entries = node.entries.size();
  EXPECT_EQ(node.one<SeekOutcome>(seek_to(stamps[1] - 1)).partitions, 2U);
  EXPECT_EQ(node.entries.size(), entries);
}

// A step is short however many partitions there are, and those made after the first are left out.
TEST(Seek, GoesInStepsAndEndsWhilePartitionsAreMade) {
  Node node;
  for (int i = 0; i < 23; ++i) {
    PushCommand push;
    for (int j = 0; j < 100; ++j)
      push.batches.push_back(batch_of("q", "p" + std::to_string(100 * i + j), {"a"}));
    node.one<PushOutcome>(std::move(push));
  }
  SeekCommand seek = seek_to(std::nullopt);
  std::vector<std::uint32_t> steps;
  for (bool more = true; more;) {
    const auto out = node.one<SeekOutcome>(seek);
    steps.push_back(out.partitions);
    node.push("late" + std::to_string(steps.size()), {"x"});
    more = out.again.has_value();
    seek.from_pid = out.again.value_or(0);
    seek.pid_end = out.pid_end;
  }
  EXPECT_EQ(steps, (std::vector<std::uint32_t>{1'000, 1'000, 300}));
  EXPECT_EQ(node.store.rows(store::Keyspace::cursors), 2'300U);
}

SubscribeOutcome subscribe(Node& node, std::int64_t from_us, const std::string& group = "g") {
  SubscribeCommand command{group, from_us, {}};
  SubscribeOutcome total;
  for (;;) {
    const auto out = node.one<SubscribeOutcome>(command);
    total.rows += out.rows;
    if (!out.again) return total;
    command.from_queue = *out.again;
  }
}

// G-5: cursors stay; partitions without one start from the instant, which may be earlier or later.
TEST(Subscription, DecidesWherePartitionsWithoutACursorStart) {
  Node node;
  const auto stamps = three_each(node, {"p1", "p2"});
  node.one<PopOutcome>(pop_of(node, "g", Subscription::Mode::fresh));
  EXPECT_FALSE(node.pending(Pid{1}, "g"));
  SeekCommand seek = seek_to(std::nullopt);
  seek.partition = "p1";
  node.one<SeekOutcome>(seek);
  EXPECT_EQ(subscribe(node, stamps[1] - 1).rows, 1U);
  EXPECT_EQ(node.cursor(Pid{1}, "g")->committed, 2);
  EXPECT_FALSE(node.pending(Pid{1}, "g"));
  EXPECT_TRUE(node.pending(Pid{2}, "g"));
  // Later than all there is: nothing is wanted any more.
  subscribe(node, node.now + 60 * kSecond);
  EXPECT_FALSE(node.pending(Pid{2}, "g"));
  EXPECT_TRUE(node.one<PopOutcome>(pop_of(node, "g")).claims.empty());
  subscribe(node, stamps[1] - 1);
  const auto out = node.one<PopOutcome>(pop_of(node, "g"));
  ASSERT_EQ(out.claims.size(), 1U);
  EXPECT_EQ(out.claims[0].partition, "p2");
  EXPECT_EQ(out.claims[0].first, 1U);
}

// G-5: on every queue of the tenant where it is registered, one queue an entry; others are left alone.
TEST(Subscription, ChangesEveryRegistrationOfTheGroupInSteps) {
  Node node;
  for (const char* queue : {"a", "b", "c"}) {
    PopCommand pop = pop_of(node, queue == std::string("b") ? "other" : "g");
    pop.queue = queue;
    node.one<PopOutcome>(pop);
  }
  const std::size_t entries = node.entries.size();
  EXPECT_EQ(subscribe(node, node.now).rows, 2U);
  EXPECT_EQ(node.entries.size(), entries + 2);
  const auto row = [&](const std::string& queue, const std::string& group) {
    return *store::GroupRow::decode(
        *node.store.get(store::Keyspace::groups, store::group_key(kTenant, queue, group)));
  };
  EXPECT_EQ(row("c", "g").mode, store::GroupMode::timestamp);
  EXPECT_EQ(row("c", "g").subscription_ts, node.now);
  EXPECT_EQ(row("b", "other").mode, store::GroupMode::all);
  EXPECT_EQ(subscribe(node, node.now).rows, 2U);
  EXPECT_EQ(node.entries.size(), entries + 2);
  EXPECT_EQ(subscribe(node, node.now, "nobody").rows, 0U);
}

// F-4: queue mode starts at the oldest message, whatever is asked for.
TEST(Subscription, LeavesQueueModeAlone) {
  Node node;
  node.pop();
  EXPECT_EQ(subscribe(node, node.now + 60 * kSecond, std::string(kQueueMode)).rows, 0U);
  node.push("p", {"a"});
  EXPECT_EQ(node.pop().claims.size(), 1U);
}

//
TEST(Renew, ProlongsEveryLeaseOfTheIdAndNothingElse) {
  Node node;
  three_each(node, {"p1", "p2", "p3"});
  node.one<PopOutcome>(pop_of(node, "g"));
  const auto before = *node.cursor(Pid{2}, "g");
  node.now += 10 * kSecond;
  const auto out = node.one<RenewOutcome>(RenewCommand{node.last_lease, 45});
  EXPECT_EQ(out.renewed, 3U);
  ASSERT_TRUE(out.expires_at);
  EXPECT_GE(*out.expires_at, node.now + 45 * kSecond);
  auto after = *node.cursor(Pid{2}, "g");
  EXPECT_EQ(after.lease_expires, out.expires_at);
  EXPECT_EQ(node.pending(Pid{2}, "g"), out.expires_at);
  after.lease_expires = before.lease_expires;
  EXPECT_EQ(after, before);
}

// X-1, EN-7
TEST(Renew, NeverShortens) {
  Node node;
  three_each(node, {"p"});
  node.one<PopOutcome>(pop_of(node, "g"));
  const auto before = node.cursor(Pid{1}, "g");
  const std::size_t entries = node.entries.size();
  const auto out = node.one<RenewOutcome>(RenewCommand{node.last_lease, 1});
  EXPECT_EQ(out.renewed, 1U);
  EXPECT_EQ(out.expires_at, before->lease_expires);
  EXPECT_EQ(node.cursor(Pid{1}, "g"), before);
  EXPECT_EQ(node.entries.size(), entries);
}

//
TEST(Renew, FindsNothingUnknownForeignReleasedOrExpired) {
  Node node;
  three_each(node, {"p"});
  node.one<PopOutcome>(pop_of(node, "g"));
  const std::string lease = node.last_lease;
  const auto nothing = [&](const std::string& id, const std::string& tenant = kTenant) {
    const auto out = node.one<RenewOutcome>(RenewCommand{id, 60}, tenant);
    return out.renewed == 0 && !out.expires_at;
  };
  EXPECT_TRUE(nothing("nonsense"));
  EXPECT_TRUE(nothing(""));
  EXPECT_TRUE(nothing(lease, "01b7c0de-0001-7aaa-8bbb-00000000000a"));
  node.now += 31 * kSecond;
  EXPECT_TRUE(nothing(lease));
  node.one<PopOutcome>(pop_of(node, "g"));
  EXPECT_TRUE(nothing(lease));
  const std::string next = node.last_lease;
  EXPECT_FALSE(nothing(next));
  ASSERT_TRUE(ack(node, Pid{1}, "c", next).success);
  EXPECT_TRUE(nothing(next));
}

// L-1: a renewed lease keeps others out until its new end.
TEST(Renew, KeepsOtherPopsOutUntilTheNewEnd) {
  Node node;
  three_each(node, {"p"});
  node.one<PopOutcome>(pop_of(node, "g"));
  const std::string lease = node.last_lease;
  node.one<RenewOutcome>(RenewCommand{lease, 90});
  node.now += 60 * kSecond;
  const auto out = node.one<PopOutcome>(pop_of(node, "g"));
  EXPECT_TRUE(out.claims.empty());
  EXPECT_EQ(out.look_again_at, node.cursor(Pid{1}, "g")->lease_expires);
  EXPECT_TRUE(ack(node, Pid{1}, "c", lease).success);
}

// A barrier makes no entry: its answer alone is what counts.
TEST(Barrier, ChangesNothing) {
  Node node;
  const auto cycle = node.plan({node.command(BarrierCommand{})});
  EXPECT_FALSE(cycle.entry);
  EXPECT_EQ(cycle.outcomes.at(0).code, "");
}

}  // namespace
}  // namespace queen::machine
