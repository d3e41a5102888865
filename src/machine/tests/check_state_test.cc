// What must hold between the tables: nothing is found after real entries, and every lost row is.
#include "machine/check_state.h"

#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using store::Keyspace;
using testing::Node;

std::vector<Finding> check(const Node& node) {
  FindingList found;
  check_state(node.store, "data.mdb", found);
  return found.all;
}

void use(Node& node) {
  node.push("p1", {"a", "b", "c"});
  node.push("p2", {"d"});
  const auto popped = node.pop(2);
  ASSERT_FALSE(popped.claims.empty());
  AckCommand ack;
  ack.items.push_back(node.ack_item(popped.claims[0].pid, "a", AckStatus::dlq, node.last_lease));
  node.one<AckOutcome>(std::move(ack));
  node.now += testing::kSecond;
  node.push("p1", {"e"});
  node.pop(1);
}

TEST(CheckState, FindsNothingAfterEntriesOfAllKinds) {
  Node node;
  use(node);
  const auto found = check(node);
  EXPECT_TRUE(found.empty()) << found.front().what;
  EXPECT_GT(node.store.rows(Keyspace::leases_by_worker), 0u);
  EXPECT_GT(node.store.rows(Keyspace::pending), 0u);
  EXPECT_GT(node.store.rows(Keyspace::dlq), 0u);
}

// Every table of which another one knows the rows.
TEST(CheckState, FindsARowThatIsGoneFromAnyTable) {
  for (const Keyspace keyspace :
       {Keyspace::queues, Keyspace::groups, Keyspace::partitions, Keyspace::partitions_by_key,
        Keyspace::queue_partitions, Keyspace::leases_by_worker, Keyspace::pending, Keyspace::txns,
        Keyspace::dlq, Keyspace::dlq_by_pos}) {
    Node node;
    use(node);
    std::optional<Bytes> first;
    node.store.scan(keyspace, {}, {}, [&](BytesView key, BytesView) {
      first = Bytes(key);
      return false;
    });
    ASSERT_TRUE(first) << name_of(keyspace);
    node.store.erase(keyspace, *first);
    EXPECT_FALSE(check(node).empty()) << name_of(keyspace);
  }
}

// What management reads show without looking at rows (storage.md 9).
TEST(CheckState, FindsAQueueCounterThatTheRowsContradict) {
  const Bytes queue = store::counter_id(testing::kTenant, "q");
  for (const store::Counter counter :
       {store::Counter::dlq_count, store::Counter::retained_bytes, store::Counter::last_push_us}) {
    Node node;
    use(node);
    const Bytes key = store::counter_key(store::CounterScope::queue, queue, counter);
    const auto value = store::decode_i64_row(*node.store.get(Keyspace::counters, key));
    node.store.put(Keyspace::counters, key, store::encode_i64_row(*value - 1));
    const auto found = check(node);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].keyspace, "counters");
    EXPECT_EQ(found[0].key, key);
  }
}

TEST(CheckState, NamesKeyspaceAndKey) {
  Node node;
  use(node);
  node.store.put(Keyspace::meta, store::kMetaNextPid, store::encode_meta_u64(2));
  const auto found = check(node);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].keyspace, "partitions");
  EXPECT_EQ(found[0].key, store::partition_key(Pid{2}));
}

}  // namespace
}  // namespace queen::machine
