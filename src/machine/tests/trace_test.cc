// Trace events: their order, their names, and how they leave (api-messaging.md 13; storage.md RT-16).
#include <gtest/gtest.h>

#include "machine/check_state.h"
#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;
using store::Keyspace;

TraceCommand trace_of(Node& node, const std::string& transaction_id, std::optional<Pid> pid,
                      std::vector<std::string> names = {"n"}) {
  TraceCommand trace{pid, transaction_id, {}};
  trace.row.id = numbered_uuid(node.next_uuid++);
  trace.row.event_type = "event";
  trace.row.data = "{}";
  trace.row.names = std::move(names);
  return trace;
}
std::vector<std::uint64_t> sequences(const Node& node, std::optional<Pid> pid,
                                     const std::string& transaction_id) {
  std::vector<std::uint64_t> out;
  node.store.scan(Keyspace::traces, store::traces_prefix(kTenant, pid, transaction_id), {},
                  [&](BytesView key, BytesView) {
                    out.push_back(store::parse_trace_key(key)->sequence);
                    return true;
                  });
  return out;
}
std::vector<std::string> findings(const Node& node) {
  FindingList found;
  check_state(node.store, "store", found);
  std::vector<std::string> out;
  for (const auto& one : found.all) out.push_back(one.what);
  return out;
}

TEST(Trace, EventsOfAMessageAreNumberedInOrder) {
  Node node;
  const Pid pid = node.push("p", {"a"}).pid;
  EXPECT_TRUE(node.one<TraceOutcome>(trace_of(node, "a", pid)).stored);
  node.run({node.command(trace_of(node, "a", pid)), node.command(trace_of(node, "b", pid)),
            node.command(trace_of(node, "a", pid, {"n", "m"})),
            node.command(trace_of(node, "a", std::nullopt))});
  EXPECT_EQ(sequences(node, pid, "a"), (std::vector<std::uint64_t>{0, 1, 2}));
  EXPECT_EQ(sequences(node, pid, "b"), std::vector<std::uint64_t>{0});
  EXPECT_EQ(sequences(node, std::nullopt, "a"), std::vector<std::uint64_t>{0});
  EXPECT_EQ(node.store.rows(Keyspace::trace_names), 6U);
  EXPECT_EQ(node.store.rows(Keyspace::trace_expiry), 5U);
  EXPECT_TRUE(findings(node).empty());
}

// 13: 404 for an unknown and for a foreign partition.
TEST(Trace, OfAPartitionThatTheTenantDoesNotHaveIsRefused) {
  Node node;
  const Pid pid = node.push("p", {"a"}).pid;
  const std::size_t entries = node.entries.size();
  EXPECT_FALSE(node.one<TraceOutcome>(trace_of(node, "a", Pid{99})).stored);
  EXPECT_FALSE(
      node.one<TraceOutcome>(trace_of(node, "a", pid), "018f2b3c-0000-7000-8000-0000000000aa").stored);
  EXPECT_EQ(node.entries.size(), entries);
  EXPECT_EQ(node.store.rows(Keyspace::traces), 0U);
}

// RT-16
TEST(TraceExpiry, DropsTheOldestInBoundedSteps) {
  Node node;
  for (int i = 0; i < 5; ++i) node.one<TraceOutcome>(trace_of(node, "a", std::nullopt, {"n", "m"}));
  node.now += 100 * kSecond;
  node.one<TraceOutcome>(trace_of(node, "a", std::nullopt));
  const TraceExpireCommand step{50 * kSecond, 2};
  EXPECT_TRUE(node.one<TraceExpireOutcome>(step).more);
  EXPECT_EQ(sequences(node, std::nullopt, "a"), (std::vector<std::uint64_t>{2, 3, 4, 5}));
  EXPECT_TRUE(findings(node).empty());
  EXPECT_TRUE(node.one<TraceExpireOutcome>(step).more);
  EXPECT_FALSE(node.one<TraceExpireOutcome>(step).more);
  EXPECT_EQ(sequences(node, std::nullopt, "a"), std::vector<std::uint64_t>{5});
  EXPECT_EQ(node.store.rows(Keyspace::trace_names), 1U);
  EXPECT_EQ(node.store.rows(Keyspace::trace_expiry), 1U);
  // With nothing to do nothing is logged (EN-7).
  const std::size_t entries = node.entries.size();
  EXPECT_FALSE(node.one<TraceExpireOutcome>(step).more);
  EXPECT_EQ(node.entries.size(), entries);
  // Numbers go on behind what is left.
  node.one<TraceOutcome>(trace_of(node, "a", std::nullopt));
  EXPECT_EQ(sequences(node, std::nullopt, "a"), (std::vector<std::uint64_t>{5, 6}));
  EXPECT_TRUE(findings(node).empty());
}

// 13: kept for their retention, to the microsecond.
TEST(TraceExpiry, KeepsWhatIsExactlyAsOldAsTheRetention) {
  Node node;
  node.one<TraceOutcome>(trace_of(node, "a", std::nullopt));
  const std::int64_t created_at = node.entries.back().now_us;
  node.now = created_at + 10 * kSecond;
  node.one<TraceExpireOutcome>(TraceExpireCommand{10 * kSecond, 512});
  EXPECT_EQ(node.store.rows(Keyspace::traces), 1U);
  node.now += 1;
  node.one<TraceExpireOutcome>(TraceExpireCommand{10 * kSecond, 512});
  EXPECT_EQ(node.store.rows(Keyspace::traces), 0U);
}

TEST(CheckState, TellsATraceThatItsIndexesDoNotName) {
  for (const Keyspace lost : {Keyspace::trace_names, Keyspace::trace_expiry, Keyspace::traces}) {
    Node node;
    node.one<TraceOutcome>(trace_of(node, "a", std::nullopt));
    ASSERT_TRUE(findings(node).empty());
    Bytes key;
    node.store.scan(lost, {}, {}, [&](BytesView at, BytesView) {
      key = Bytes(at);
      return false;
    });
    const auto gate = node.store.write_gate();
    node.store.erase(lost, key);
    EXPECT_FALSE(findings(node).empty()) << store::name_of(lost);
  }
}

}  // namespace
}  // namespace queen::machine
