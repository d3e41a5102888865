// Streams: registration, cycles, and what goes with a partition (api-state.md 5).
#include <gtest/gtest.h>

#include "machine/check_state.h"
#include "machine/detail/streams_rows.h"
#include "machine/retention.h"
#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;
using store::Keyspace;

constexpr const char* kGroup = "streams.q";

StreamsRegisterCommand registration(Node& node, const std::string& name, const std::string& hash = "h1") {
  StreamsRegisterCommand out;
  out.name = name;
  out.source = "q";
  out.config_hash = hash;
  out.query_id = numbered_uuid(node.next_uuid++);
  return out;
}
Uuid registered(Node& node, const std::string& name = "sales") {
  return node.one<StreamsRegisterOutcome>(registration(node, name)).query_id;
}

struct Leased {
  Pid pid;
  std::string lease;
};
// Pushes messages 0.. and leases all of them for the group.
Leased leased(Node& node, std::size_t count = 4) {
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back("m" + std::to_string(i));
  const Pid pid = node.push("p", ids).pid;
  PopCommand pop = node.pop_command();
  pop.group = kGroup;
  pop.subscription.mode = Subscription::Mode::all;
  EXPECT_EQ(node.one<PopOutcome>(pop).claims.size(), 1U);
  return {pid, node.last_lease};
}

StreamsCycleCommand cycle_of(const Uuid& query, Pid pid) {
  StreamsCycleCommand out;
  out.query_id = query;
  out.pid = pid;
  out.group = kGroup;
  out.state = {{"k", "{\"n\":1}"}};
  out.push.batches.push_back(batch_of("sink", "p", {"out-1"}));
  return out;
}
StreamsCycleCommand acking(const Uuid& query, const Leased& at) {
  StreamsCycleCommand out = cycle_of(query, at.pid);
  out.ack = StreamsCycleCommand::Ack{at.lease, true, 0};
  return out;
}

// `key=value;` of a query's state in one partition.
std::string state_of(const Node& node, const Uuid& query, Pid pid) {
  std::string out;
  node.store.scan(Keyspace::streams_state, store::streams_state_prefix(query, pid), {},
                  [&](BytesView key, BytesView value) {
                    out += store::parse_streams_state_key(key)->key + "=" +
                           store::StreamsStateRow::decode(value)->value + ";";
                    return true;
                  });
  return out;
}
std::string findings_of(const Node& node) {
  FindingList findings;
  check_state(node.store, "store", findings);
  std::string out;
  for (const Finding& finding : findings.all) out += finding.what + "\n";
  return out;
}

// ST-1, ST-5
TEST(StreamsRegister, FindsAQueryByItsName) {
  Node node;
  const auto first = node.one<StreamsRegisterOutcome>(registration(node, "sales"));
  EXPECT_TRUE(first.fresh && !first.reset && !first.mismatch && !first.denied);
  StreamsRegisterCommand again = registration(node, "sales");
  again.reset = true;
  again.source = "q2";
  again.sink = "out";
  node.now += kSecond;
  const auto second = node.one<StreamsRegisterOutcome>(again);
  EXPECT_EQ(second.query_id, first.query_id);
  EXPECT_TRUE(!second.fresh && !second.reset && !second.mismatch);
  const auto row = store::StreamsQueryRow::decode(
      *node.store.get(Keyspace::streams_queries, store::streams_query_key(kTenant, first.query_id)));
  EXPECT_EQ(row->source, "q2");
  EXPECT_EQ(row->sink, "out");
  EXPECT_EQ(row->updated, row->created + kSecond);
  // With nothing new nothing is logged.
  const std::size_t entries = node.entries.size();
  node.now += kSecond;
  node.one<StreamsRegisterOutcome>(again);
  EXPECT_EQ(node.entries.size(), entries);
  EXPECT_EQ(node.store.rows(Keyspace::queues), 0U);
  EXPECT_EQ(node.store.rows(Keyspace::groups), 0U);
  // Another tenant's query of that name is another query.
  EXPECT_TRUE(node.one<StreamsRegisterOutcome>(registration(node, "sales"), numbered_uuid(77).str()).fresh);
}

// ST-2, ST-3
TEST(StreamsRegister, AnotherHashNeedsAResetAndDropsTheState) {
  Node node;
  const Uuid query = registered(node);
  const Uuid other = registered(node, "other");
  const Leased at = leased(node);
  node.one<StreamsCycleOutcome>(acking(query, at));
  StreamsCycleCommand flush = cycle_of(other, at.pid);
  flush.push = {};
  node.one<StreamsCycleOutcome>(flush);
  const auto refused = node.one<StreamsRegisterOutcome>(registration(node, "sales", "h2"));
  EXPECT_TRUE(refused.mismatch && !refused.reset);
  EXPECT_EQ(refused.query_id, query);
  EXPECT_EQ(state_of(node, query, at.pid), "k={\"n\":1};");
  StreamsRegisterCommand reset = registration(node, "sales", "h2");
  reset.reset = true;
  const auto done = node.one<StreamsRegisterOutcome>(reset);
  EXPECT_TRUE(done.reset && !done.fresh && !done.mismatch);
  EXPECT_EQ(done.query_id, query);
  EXPECT_EQ(state_of(node, query, at.pid), "");
  EXPECT_EQ(state_of(node, other, at.pid), "k={\"n\":1};");
  EXPECT_EQ(node.cursor(at.pid, kGroup)->committed, 3);  // the group's place is kept
}

// ST-4
TEST(StreamsRegister, HoldsNewQueriesToTheLimit) {
  Node node;
  registered(node, "a");
  StreamsRegisterCommand second = registration(node, "b");
  second.queries_max = 1;
  EXPECT_TRUE(node.one<StreamsRegisterOutcome>(second).denied);
  EXPECT_EQ(node.store.rows(Keyspace::streams_queries), 1U);
  StreamsRegisterCommand known = registration(node, "a");
  known.queries_max = 0;
  EXPECT_FALSE(node.one<StreamsRegisterOutcome>(known).denied);
}

// ST-8, ST-12, ST-16
TEST(StreamsCycle, CommitsStatePushesAndTheAckInOneEntry) {
  Node node;
  const Uuid query = registered(node);
  const Leased at = leased(node);
  StreamsCycleCommand cycle = acking(query, at);
  cycle.state = {{"a", "1"}, {"b", "2"}, {"a", std::nullopt}, {"c", "3"}, {"c", "4"}};
  const std::size_t entries = node.entries.size();
  const auto out = node.one<StreamsCycleOutcome>(cycle);
  EXPECT_EQ(node.entries.size(), entries + 1);
  EXPECT_TRUE(out.found);
  EXPECT_EQ(out.reason, "");
  EXPECT_EQ(out.queue, "q");
  EXPECT_EQ(out.state_ops, 5U);
  EXPECT_EQ(out.push.batches.at(0).items.at(0).status, PushItemOutcome::Status::queued);
  ASSERT_TRUE(out.ack.has_value());
  EXPECT_EQ(out.ack->count, 4);
  EXPECT_TRUE(out.ack->lease_released);
  EXPECT_EQ(state_of(node, query, at.pid), "b=2;c=4;");
  const auto cursor = node.cursor(at.pid, kGroup);
  EXPECT_EQ(cursor->committed, 3);
  EXPECT_FALSE(cursor->worker);
  EXPECT_EQ(cursor->total_consumed, 4U);
  EXPECT_EQ(findings_of(node), "");
}

// ST-10, ST-18
TEST(StreamsCycle, RefusesALeaseThatIsNotThePartitionsLiveOne) {
  Node node;
  const Uuid query = registered(node);
  const Leased at = leased(node);
  StreamsCycleCommand foreign = acking(query, at);
  foreign.ack->lease_id = numbered_uuid(4711).str();
  const std::size_t entries = node.entries.size();
  EXPECT_EQ(node.one<StreamsCycleOutcome>(foreign).reason, "bad_lease");
  EXPECT_EQ(node.entries.size(), entries);
  EXPECT_EQ(node.one<StreamsCycleOutcome>(acking(query, at)).reason, "");
  // The retry of what was committed finds its lease gone.
  StreamsCycleCommand retry = acking(query, at);
  retry.push = {};
  EXPECT_EQ(node.one<StreamsCycleOutcome>(retry).reason, "bad_lease");
  // One that ran out is none.
  const Leased late = leased(node, 8);
  node.now += 3'600 * kSecond;
  EXPECT_EQ(node.one<StreamsCycleOutcome>(acking(query, late)).reason, "bad_lease");
}

// ST-11
TEST(StreamsCycle, ANackReleasesAndStoresTheRest) {
  Node node;
  const Uuid query = registered(node);
  const Leased at = leased(node);
  StreamsCycleCommand cycle = acking(query, at);
  cycle.ack->completed = false;
  const auto out = node.one<StreamsCycleOutcome>(cycle);
  EXPECT_EQ(out.reason, "");
  EXPECT_EQ(out.ack->count, 0);
  EXPECT_TRUE(out.ack->lease_released);
  EXPECT_EQ(node.cursor(at.pid, kGroup)->committed, -1);
  EXPECT_FALSE(node.cursor(at.pid, kGroup)->worker);
  EXPECT_EQ(state_of(node, query, at.pid), "k={\"n\":1};");
  EXPECT_EQ(findings_of(node), "");
  // Everything comes again.
  PopCommand pop = node.pop_command();
  pop.group = kGroup;
  EXPECT_EQ(node.one<PopOutcome>(pop).claims.at(0).first, 0U);
}

// ST-13
TEST(StreamsCycle, MovesByCountAndKeepsTheLease) {
  Node node;
  const Uuid query = registered(node);
  const Leased at = leased(node);
  StreamsCycleCommand cycle = acking(query, at);
  cycle.release_lease = false;
  for (const std::int64_t nothing : {0, -5}) {
    cycle.push = {};
    cycle.ack->count = nothing;
    EXPECT_EQ(node.one<StreamsCycleOutcome>(cycle).ack->count, 0);
    EXPECT_EQ(node.cursor(at.pid, kGroup)->committed, -1);
  }
  cycle.ack->count = 3;
  const auto out = node.one<StreamsCycleOutcome>(cycle);
  EXPECT_EQ(out.ack->count, 3);
  EXPECT_FALSE(out.ack->lease_released);
  EXPECT_EQ(node.cursor(at.pid, kGroup)->committed, 2);
  EXPECT_EQ(node.cursor(at.pid, kGroup)->worker, at.lease);
  EXPECT_EQ(findings_of(node), "");
  // The tail comes back when the lease runs out, and not before.
  PopCommand pop = node.pop_command();
  pop.group = kGroup;
  EXPECT_TRUE(node.one<PopOutcome>(pop).claims.empty());
  node.now += 3'600 * kSecond;
  pop.lease_id = numbered_uuid(node.next_uuid++);
  EXPECT_EQ(node.one<PopOutcome>(pop).claims.at(0).first, 3U);
}

// ST-13: never past the end; a lease over nothing is none.
TEST(StreamsCycle, CountsNoFurtherThanTheBatch) {
  Node node;
  const Uuid query = registered(node);
  const Leased at = leased(node);
  node.push("p", {"later"});
  StreamsCycleCommand cycle = acking(query, at);
  cycle.release_lease = false;
  cycle.ack->count = INT64_MAX;
  const auto out = node.one<StreamsCycleOutcome>(cycle);
  EXPECT_EQ(out.ack->count, 4);
  EXPECT_TRUE(out.ack->lease_released);
  EXPECT_EQ(node.cursor(at.pid, kGroup)->committed, 3);
  EXPECT_EQ(findings_of(node), "");
}

// ST-9, ST-14
TEST(StreamsCycle, WithoutALeasedBatchThereIsNothingToAck) {
  Node node;
  const Uuid query = registered(node);
  const Pid pid = node.push("p", {"a"}).pid;
  StreamsCycleCommand cycle = cycle_of(query, pid);
  cycle.ack = StreamsCycleCommand::Ack{};
  const auto skipped = node.one<StreamsCycleOutcome>(cycle);  // no cursor
  EXPECT_EQ(skipped.reason, "");
  EXPECT_FALSE(skipped.ack.has_value());
  EXPECT_EQ(state_of(node, query, pid), "k={\"n\":1};");
  const Leased at = leased(node);
  cycle.push = {};
  EXPECT_EQ(node.one<StreamsCycleOutcome>(acking(query, at)).reason, "duplicate");
  StreamsCycleCommand done = acking(query, at);
  done.push = {};
  EXPECT_EQ(node.one<StreamsCycleOutcome>(done).reason, "");
  EXPECT_EQ(node.one<StreamsCycleOutcome>(cycle).reason, "no_batch");
  // An idle flush asks for no lease.
  StreamsCycleCommand flush = cycle_of(query, pid);
  flush.push = {};
  EXPECT_EQ(node.one<StreamsCycleOutcome>(flush).reason, "");
}

// ST-15, DD-10
TEST(StreamsCycle, ADuplicateRollsEverythingBack) {
  Node node;
  const Uuid query = registered(node);
  const Leased at = leased(node);
  node.push("p", {"out-1"}, "sink");
  const std::size_t entries = node.entries.size();
  const auto out = node.one<StreamsCycleOutcome>(acking(query, at));
  EXPECT_EQ(out.reason, "duplicate");
  EXPECT_FALSE(out.ack.has_value());
  EXPECT_EQ(node.entries.size(), entries);
  EXPECT_EQ(state_of(node, query, at.pid), "");
  EXPECT_EQ(node.cursor(at.pid, kGroup)->worker, at.lease);
}

TEST(StreamsCycle, AFlaggedSinkTakesNoPlaintext) {
  Node node;
  const Uuid query = registered(node);
  const Leased at = leased(node);
  node.configure({{"encryptionEnabled", 1}}, "sink");
  EXPECT_EQ(node.one<StreamsCycleOutcome>(acking(query, at)).reason, "encryption_required");
  StreamsCycleCommand sealed = acking(query, at);
  sealed.push.batches[0].sealed = true;
  EXPECT_EQ(node.one<StreamsCycleOutcome>(sealed).reason, "");
}

TEST(StreamsCycle, KnowsItsOwnTenantAlone) {
  Node node;
  const Uuid query = registered(node);
  const Leased at = leased(node);
  const std::string other = numbered_uuid(77).str();
  EXPECT_FALSE(node.one<StreamsCycleOutcome>(acking(query, at), other).found);
  EXPECT_FALSE(node.one<StreamsCycleOutcome>(acking(numbered_uuid(5000), at)).found);
  EXPECT_FALSE(node.one<StreamsCycleOutcome>(acking(query, {Pid{999}, at.lease})).found);
  EXPECT_TRUE(node.one<StreamsCycleOutcome>(acking(query, at)).found);
}

TEST(StreamsState, GoesWithItsQueueInSteps) {
  Node node;
  const Uuid first = registered(node, "a"), second = registered(node, "b");
  const Pid pid = node.push("p", {"x"}).pid, kept = node.push("p", {"x"}, "other").pid;
  for (const Uuid& query : {first, second}) {
    StreamsCycleCommand cycle = cycle_of(query, pid);
    cycle.push = {};
    cycle.state.clear();
    for (int i = 0; i < 700; ++i) cycle.state.push_back({"k" + std::to_string(i), "1"});
    node.one<StreamsCycleOutcome>(cycle);
    cycle.pid = kept;
    cycle.state.resize(1);
    node.one<StreamsCycleOutcome>(cycle);
  }
  node.one<QueueDeleteOutcome>(QueueDeleteCommand{"q", 0});
  EXPECT_EQ(node.store.rows(Keyspace::streams_state), 1402U);
  EXPECT_EQ(findings_of(node), "");
  int steps = 0;
  while (node.store.rows(Keyspace::garbage) > 0 && steps++ < 10) node.one<GarbageOutcome>(GarbageCommand{});
  EXPECT_GT(steps, 1);  // a thousand rows at a time
  EXPECT_EQ(node.store.rows(Keyspace::streams_state), 2U);
  EXPECT_EQ(state_of(node, first, kept), "k0=1;");
  EXPECT_EQ(node.store.rows(Keyspace::streams_queries), 2U);
  EXPECT_EQ(findings_of(node), "");
}

// RT-13: open windows wait for the partition's next message.
TEST(StreamsState, KeepsItsIdlePartition) {
  Node node;
  const Uuid query = registered(node);
  const Pid pid = node.push("p", {"x"}).pid;
  node.store.erase(Keyspace::txns, store::txns_key(pid, 0));
  auto row = *store::PartitionRow::decode(*node.store.get(Keyspace::partitions, store::partition_key(pid)));
  row.log_start = row.txns_start = row.rows_start = row.last_offset + 1;
  const auto dead = [&] { return *partition_dead(node.store, pid, row, node.now + 100 * kSecond, kSecond); };
  EXPECT_TRUE(dead());
  StreamsCycleCommand cycle = cycle_of(query, pid);
  cycle.push = {};
  node.one<StreamsCycleOutcome>(cycle);
  EXPECT_FALSE(dead());
  cycle.state = {{"k", std::nullopt}};
  node.one<StreamsCycleOutcome>(cycle);
  EXPECT_TRUE(dead());
}

TEST(StreamsState, IsFoundAmongAllQueries) {
  store::Store rows;
  const auto put = [&](std::uint64_t query, std::uint64_t pid, const char* key) {
    rows.put(Keyspace::streams_state, store::streams_state_key(numbered_uuid(query), Pid{pid}, key),
             store::StreamsStateRow{"1", 1}.encode());
  };
  for (const std::uint64_t query : {1, 2, 255, 256, 0xFFFF})
    for (const std::uint64_t pid : {3, 7, 9}) put(query, pid, "a");
  put(2, 7, "b");
  put(300, 9, "only behind");
  put(301, 3, "only before");
  EXPECT_EQ(detail::streams_state_of(rows, Pid{7}, 100).size(), 6U);
  EXPECT_EQ(detail::streams_state_of(rows, Pid{7}, 2).size(), 2U);
  EXPECT_EQ(detail::streams_state_of(rows, Pid{7}, 0).size(), 0U);
  EXPECT_EQ(detail::streams_state_of(rows, Pid{8}, 100).size(), 0U);
  EXPECT_EQ(detail::streams_state_of(rows, Pid{3}, 100).size(), 6U);
  EXPECT_EQ(detail::streams_state_of(rows, Pid{9}, 100).size(), 6U);
}

TEST(StreamsState, IsCheckedAgainstQueriesAndPartitions) {
  Node node;
  const Uuid query = registered(node);
  const Pid pid = node.push("p", {"x"}).pid;
  const auto put = [&](const Uuid& of, Pid at) {
    node.store.put(Keyspace::streams_state, store::streams_state_key(of, at, "k"),
                   store::StreamsStateRow{"1", 1}.encode());
  };
  put(query, pid);
  EXPECT_EQ(findings_of(node), "");
  put(numbered_uuid(5000), pid);
  EXPECT_NE(findings_of(node).find("its query does not exist"), std::string::npos);
  node.store.erase(Keyspace::streams_state, store::streams_state_key(numbered_uuid(5000), pid, "k"));
  put(query, Pid{999});
  EXPECT_NE(findings_of(node).find("its partition does not exist"), std::string::npos);
}

}  // namespace
}  // namespace queen::machine
