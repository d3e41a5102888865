#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "machine/dedup_index.h"
#include "machine/tests/harness.h"
#include "store/overlay.h"

namespace queen::machine {
namespace {

using namespace testing;
using Status = PushItemOutcome::Status;

TEST(Push, CreatesQueueAndPartitionInTheEntryOfTheMessage) {
  Node node;
  const auto out = node.push("p", {"a", "b"}, "acme.bill.x");
  EXPECT_EQ(out.pid, Pid{1});
  EXPECT_EQ(out.items[1].offset, 1U);
  ASSERT_EQ(node.entries.size(), 1U);
  EXPECT_EQ(node.entries[0].effects.size(), 3U);
  const auto row = *store::QueueRow::decode(
      *node.store.get(store::Keyspace::queues, store::queue_key(kTenant, "acme.bill.x")));
  EXPECT_EQ(row.namespace_name, "acme");
  EXPECT_EQ(row.task, "bill");
  EXPECT_EQ(row.lease_time, 60);
  const auto partition = *store::PartitionRow::decode(
      *node.store.get(store::Keyspace::partitions, store::partition_key(Pid{1})));
  EXPECT_EQ(partition.created_at, partition.last_created_at);
  EXPECT_EQ(node.push("p", {"a"}, "orders").pid, Pid{2});
  const auto plain =
      *store::QueueRow::decode(*node.store.get(store::Keyspace::queues, store::queue_key(kTenant, "orders")));
  EXPECT_EQ(plain.namespace_name, "orders");
  EXPECT_EQ(plain.task, std::nullopt);
}

TEST(Push, KeepsTheCounters) {
  Node node;
  PushCommand push;
  push.batches = {batch_of("q", "p1", {"a", "b"}), batch_of("q", "p2", {"c"})};
  const auto out = node.one<PushOutcome>(std::move(push));
  const auto counter = [&](store::CounterScope scope, const Bytes& id, store::Counter which) {
    return *store::decode_i64_row(
        *node.store.get(store::Keyspace::counters, store::counter_key(scope, id, which)));
  };
  const Bytes queue = store::counter_id(kTenant, "q");
  EXPECT_EQ(counter(store::CounterScope::queue, queue, store::Counter::pushed), 3);
  EXPECT_EQ(counter(store::CounterScope::queue, queue, store::Counter::retained_bytes), 9);
  EXPECT_EQ(counter(store::CounterScope::queue, queue, store::Counter::last_push_us), node.entries[0].now_us);
  EXPECT_EQ(counter(store::CounterScope::partition, store::counter_id(out.batches[0].pid),
                    store::Counter::retained_bytes),
            6);
}

TEST(Push, StampsAscendAndNeverFallBehindTheLog) {
  Node node;
  node.push("p", {"a"});
  node.now -= 3'600 * kSecond;  // the wall clock went back
  node.push("p", {"b"});
  EXPECT_EQ(node.entries[1].now_us, node.entries[0].now_us + 1);
  PushCommand first, second;
  first.batches.push_back(batch_of("q", "p", {"c"}));
  second.batches.push_back(batch_of("q", "p", {"d"}));
  std::vector<Command> commands;
  commands.push_back(node.command(std::move(first)));
  commands.push_back(node.command(std::move(second)));
  node.run(commands);
  std::vector<std::int64_t> stamps;
  for (const Effect& effect : node.entries[2].effects) stamps.push_back(std::get<Append>(effect).created_at);
  EXPECT_EQ(stamps, (std::vector<std::int64_t>{node.entries[2].now_us, node.entries[2].now_us + 1}));
  EXPECT_EQ(safe_time_us(node.store), node.entries[2].now_us + 1);
}

TEST(Push, DropsDuplicatesFromWhatItStores) {
  Node node;
  node.push("p", {"a"});
  PushCommand push;
  push.batches.push_back(batch_of("q", "p", {"b", "a", "c", "b"}));
  std::vector<Command> commands;
  commands.push_back(node.command(std::move(push)));
  auto cycle = node.plan(commands);
  const auto& append = std::get<Append>(cycle.entry->effects.at(0));
  EXPECT_EQ(append.count, 2U);
  EXPECT_EQ(append.payload->bytes, "<b><c>");
  EXPECT_FALSE(append.payload->compressed);
  EXPECT_EQ(append.payload->raw_bytes, 6U);
  EXPECT_EQ(append.queue_id, xxh3_64(kTenant + "\x1F" + "q"));
  const auto& items = std::get<PushOutcome>(cycle.outcomes[0].body).batches[0].items;
  EXPECT_EQ(items[0].offset, 1U);
  EXPECT_EQ(items[1].status, Status::duplicate);
  EXPECT_EQ(items[1].offset, 0U);
  EXPECT_EQ(items[1].first_in_batch, std::nullopt);
  EXPECT_EQ(items[2].offset, 2U);
  EXPECT_EQ(items[3].status, Status::duplicate);
  EXPECT_EQ(items[3].first_in_batch, 0U);
  EXPECT_EQ(items[3].offset, 1U);
}

TEST(Push, WholeBatchGoesToTheLogAsItCame) {
  Node node;
  PushCommand push;
  push.batches.push_back(batch_of("q", "p", {"a", "b"}));
  const auto stored = push.batches[0].stored;
  std::vector<Command> commands;
  commands.push_back(node.command(std::move(push)));
  const auto cycle = node.plan(commands);
  EXPECT_EQ(std::get<Append>(cycle.entry->effects.back()).payload, stored);
}

TEST(Push, OnlyDuplicatesMakeNoEntry) {
  Node node;
  node.push("p", {"a"});
  const auto before = node.next_index;
  EXPECT_EQ(node.push("p", {"a", "a"}).items[1].offset, 0U);
  EXPECT_EQ(node.next_index, before);
}

TEST(Push, TooLargeBatchIsRefusedAloneAndCreatesNothing) {
  Node node;
  PushCommand push;
  push.batches = {batch_of("q", "p1", {"a", "b"}), batch_of("big", "p2", {std::string(400, 'x'), "c"})};
  push.batch_bytes_max = 400;
  const auto out = node.one<PushOutcome>(std::move(push));
  EXPECT_EQ(out.batches[0].items[1].status, Status::queued);
  EXPECT_EQ(out.batches[1].items[0].status, Status::too_large);
  EXPECT_EQ(out.batches[1].pid, Pid{});
  EXPECT_FALSE(node.store.get(store::Keyspace::queues, store::queue_key(kTenant, "big")));
}

TEST(Push, EncryptedQueueWithoutAKeyRefusesTheWholePush) {
  Node node;
  ConfigureCommand configure;
  configure.queue = "orders";
  configure.integers["encryptionEnabled"] = 1;
  node.one<ConfigureOutcome>(configure);
  PushCommand push;
  push.batches = {batch_of("other", "p", {"a"}), batch_of("orders", "p", {"b"})};
  std::vector<Command> commands;
  commands.push_back(node.command(std::move(push)));
  const auto cycle = node.plan(commands);
  EXPECT_EQ(cycle.outcomes[0].code, "encryption_required");
  EXPECT_FALSE(cycle.entry);
}

TEST(Push, RepeatsInsideOneBatchAreFoundWithoutAWindow) {
  Node node;
  node.configure({{"dedupWindowSeconds", 0}});
  EXPECT_EQ(node.push("p", {"a", "a", "a"}).items[2].first_in_batch, 0U);
  EXPECT_EQ(node.push("p", {"a"}).items[0].status, Status::queued);
}

TEST(Push, SameIdsInEntriesInFlightAreOneMessage) {
  Node node;
  const auto push = [&] {
    PushCommand body;
    body.batches.push_back(batch_of("q", "p", {"a"}));
    std::vector<Command> commands;
    commands.push_back(node.command(std::move(body)));
    return commands;
  };
  const auto first = push();
  const auto second = push();
  const Command* one = &first[0];
  const Command* two = &second[0];
  const auto planned = node.planner.plan({&one, 1}, EntryIndex{1}, node.now);
  const auto repeat = node.planner.plan({&two, 1}, EntryIndex{2}, node.now);
  EXPECT_FALSE(repeat.entry);
  EXPECT_EQ(std::get<PushOutcome>(repeat.outcomes[0].body).batches[0].items[0].status, Status::duplicate);
  node.planner.reset();
  const auto again = node.planner.plan({&two, 1}, EntryIndex{1}, node.now);
  ASSERT_TRUE(again.entry);
  EXPECT_EQ(again.entry->pid_base, planned.entry->pid_base);
  EXPECT_EQ(std::get<PushOutcome>(again.outcomes[0].body).batches[0].items[0].status, Status::queued);
}

TEST(Push, ARequestIdTwiceInOneCycleIsAskedToComeAgain) {
  Node node;
  PushCommand push;
  push.batches.push_back(batch_of("q", "p", {"a"}));
  std::vector<Command> commands(2, node.command(std::move(push)));
  const auto outcomes = node.run(commands);
  EXPECT_EQ(outcomes[0].code, "");
  EXPECT_EQ(outcomes[1].code, "retry");
}

// Random ids of a small alphabet, in few partitions, with time passing and the window changed: the decisions
// are those of a list that is searched from the front.
RC_GTEST_PROP(Dedup, DecidesLikeASearchOfTheWholeHistory, ()) {
  struct Stored {
    std::string id;
    std::int64_t stamp;
  };
  Node node;
  std::map<std::string, std::vector<Stored>> history;
  std::int64_t window = *rc::gen::inRange(0, 40);
  node.configure({{"dedupWindowSeconds", window}});
  const int steps = *rc::gen::inRange(5, 60);
  for (int step = 0; step < steps; ++step) {
    if (*rc::gen::inRange(0, 10) == 0) {
      window = *rc::gen::inRange(0, 60);
      node.configure({{"dedupWindowSeconds", window}});
    }
    if (*rc::gen::inRange(0, 12) == 0) node.planner.reset();
    node.now += *rc::gen::inRange<std::int64_t>(1, 8 * kSecond);
    const std::string partition = *rc::gen::element<std::string>("p1", "p2");
    const auto numbers =
        *rc::gen::container<std::vector<int>>(*rc::gen::inRange(1, 12), rc::gen::inRange(0, 80));
    std::vector<std::string> ids;
    for (const int number : numbers) ids.push_back("id" + std::to_string(number));
    const auto out = node.push(partition, ids);
    auto& stored = history[partition];
    const std::int64_t now = node.now;
    std::map<std::string, std::uint64_t> fresh;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::optional<std::uint64_t> expected;
      for (std::size_t k = 0; k < stored.size() - fresh.size() && window > 0 && !expected; ++k)
        if (stored[k].id == ids[i] && stored[k].stamp >= now - window * kSecond) expected = k;
      if (!expected && fresh.contains(ids[i])) expected = fresh[ids[i]];
      const std::uint64_t offset = expected.value_or(stored.size());
      RC_ASSERT((out.items[i].status == Status::duplicate) == expected.has_value());
      RC_ASSERT(out.items[i].offset == offset);
      if (expected) continue;
      fresh[ids[i]] = offset;
      stored.push_back({ids[i], now});
    }
  }
}

// The same over a long stream, so that the table grows, drops what left the window and is evicted.
TEST(DedupIndex, StaysExactWhileItGrowsAndIsEvicted) {
  store::Store rows;
  const auto gate = rows.write_gate();
  DedupIndex index(64 << 10);
  store::PartitionRow partitions[2];
  std::vector<std::optional<std::uint64_t>> found;
  constexpr std::int64_t kWindow = 500;
  for (std::int64_t at = 1; at <= 4'000; ++at) {
    for (int p = 0; p < 2; ++p) {
      store::PartitionRow& partition = partitions[p];
      const Pid pid{static_cast<std::uint64_t>(p) + 1};
      const std::int64_t base = partition.last_offset + 1;
      Bytes hashes;
      for (int i = 0; i < 4; ++i) hashes += xxh3_128(std::to_string(base + i)).view();
      // The newest and the oldest id still in the window, one just outside, and the new ones.
      const std::int64_t oldest = std::max<std::int64_t>(0, base - 4 * kWindow);
      Bytes asked = hashes;
      for (const std::int64_t offset : {base - 1, oldest, oldest - 1})
        asked += xxh3_128(std::to_string(offset)).view();
      index.find(rows, pid, partition, asked, at - kWindow, found);
      for (int i = 0; i < 4; ++i) ASSERT_FALSE(found[i]) << at;
      if (base > 0) {
        ASSERT_EQ(found[4], static_cast<std::uint64_t>(base - 1)) << at;
        ASSERT_EQ(found[5], static_cast<std::uint64_t>(oldest)) << at;
        ASSERT_FALSE(found[6]) << at;
      }
      index.appended(pid, static_cast<std::uint64_t>(base), hashes);
      rows.put(store::Keyspace::txns, store::txns_key(pid, base),
               store::encode_append_row(base + 3, at, hashes, 1));
      partition.last_offset = base + 3;
      partition.last_created_at = at;
      if (base == 0) partition.created_at = at;
    }
  }
  EXPECT_LE(index.bytes(), 128U << 10);
}

}  // namespace
}  // namespace queen::machine
