// Random entries with effects of every kind (B26, B27): the planner's overlay and apply end with the same
// rows, any prefix may be applied again, and a crash in the middle of an entry leaves no trace.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "machine/check_state.h"
#include "machine/detail/folding_view.h"
#include "machine/tests/harness.h"
#include "store/overlay.h"

namespace queen::machine {
namespace {

using namespace testing;
using store::Keyspace;

// Rows that a planner must foresee: `meta` has what only apply knows.
using Rows = std::map<std::pair<std::size_t, Bytes>, Bytes>;
Rows rows_of(const store::View& view) {
  Rows rows;
  for (std::size_t i = 0; i < store::kKeyspaceCount; ++i) {
    const auto keyspace = static_cast<Keyspace>(i);
    if (keyspace == Keyspace::meta) continue;
    view.scan(keyspace, {}, {}, [&](BytesView key, BytesView value) {
      rows[{i, Bytes(key)}] = Bytes(value);
      return true;
    });
  }
  return rows;
}

void run_first(store::View& view, const Entry& entry, EntryIndex index, std::size_t effects) {
  detail::FoldingView folding(view);
  for (std::uint32_t i = 0; i < effects; ++i)
    RC_ASSERT(run_effect(folding, entry.effects[i], index, i, entry.now_us).has_value());
  folding.flush();
}

// The store as a checkpoint would bring it back.
void copy_rows(const store::Store& from, store::Store& to) {
  for (std::size_t i = 0; i < store::kKeyspaceCount; ++i) {
    const auto keyspace = static_cast<Keyspace>(i);
    from.scan(keyspace, {}, {}, [&](BytesView key, BytesView value) {
      to.put(keyspace, key, value);
      return true;
    });
  }
}

class Commands {
 public:
  explicit Commands(Node& node) : node_(node) {}

  Command next() {
    switch (*rc::gen::inRange(0, 20)) {
      case 0:
      case 1:
      case 2:
        return push();
      case 3:
      case 4:
        return pop();
      case 5:
      case 6:
        return ack();
      case 7:
      case 8:
        return retention();
      case 9:
        return node_.command(QueueDeleteCommand{queue(), *rc::gen::inRange<std::uint64_t>(0, 2)});
      case 10: {
        GroupDeleteCommand body;
        body.queue = queue();
        body.group = group();
        body.keep_registration = *rc::gen::arbitrary<bool>();
        return node_.command(body);
      }
      case 11:
      case 12:
        return dead_letter();
      case 13:
      case 14:
        return trace();
      case 15:
        return node_.command(TraceExpireCommand{*rc::gen::inRange<std::int64_t>(0, 40 * kSecond), 2});
      case 16: {
        SeekCommand body;
        body.queue = queue();
        body.group = group();
        if (*rc::gen::arbitrary<bool>()) body.since_us = node_.now - *rc::gen::inRange(0, 20) * kSecond;
        return node_.command(body);
      }
      case 17:
        return node_.command(SubscribeCommand{group(), node_.now - *rc::gen::inRange(-5, 20) * kSecond, {}});
      case 18:
        return node_.command(RenewCommand{node_.last_lease, *rc::gen::inRange<std::int64_t>(1, 60)});
      default:
        return node_.command(GarbageCommand{});
    }
  }
  void popped(const PopCommand& pop, const PopOutcome& out) {
    for (const PopClaim& claim : out.claims) leases_.push_back({pop.group, pop.lease_id.str(), claim});
  }

 private:
  struct Lease {
    std::string group, id;
    PopClaim claim;
  };

  std::string queue() { return *rc::gen::element<std::string>("q", "r"); }
  std::string group() { return *rc::gen::element<std::string>("g1", "g2", std::string(kQueueMode)); }

  Command push() {
    PushCommand push;
    push.batches.push_back(batch_of(queue(), *rc::gen::element<std::string>("p1", "p2"),
                                    {"m" + std::to_string(next_id_), "n" + std::to_string(next_id_)}));
    ++next_id_;
    return node_.command(std::move(push));
  }
  Command pop() {
    PopCommand pop = node_.pop_command(*rc::gen::inRange<std::uint32_t>(1, 4));
    pop.queue = queue();
    pop.group = group();
    pop.subscription.mode = *rc::gen::element(Subscription::Mode::all, Subscription::Mode::fresh);
    pop.lease_seconds = 20;
    return node_.command(std::move(pop));
  }
  // Ids of any message: what they do not name is refused, which is as good here.
  Command ack() {
    AckCommand ack;
    ack.group = group();
    for (const Lease& lease : leases_) {
      if (lease.group != ack.group) continue;
      const auto bytes = node_.store.get(
          Keyspace::txns, store::txns_key(lease.claim.pid, static_cast<int>(lease.claim.first)));
      AckItem item = node_.ack_item(lease.claim.pid, "?",
                                    *rc::gen::element(AckStatus::completed, AckStatus::dlq), lease.id);
      if (bytes) item.hash = store::AppendRowView::decode(*bytes)->hash(0);
      ack.items.push_back(std::move(item));
    }
    leases_.clear();
    return node_.command(std::move(ack));
  }
  // Removes some, or sends one to either queue.
  Command dead_letter() {
    DeadLetterDeleteCommand remove{queue(), {}};
    node_.store.scan(Keyspace::dlq, store::dlq_prefix(kTenant, remove.queue), {},
                     [&](BytesView key, BytesView) {
                       remove.ids.push_back(store::parse_dlq_key(key)->dlq_id);
                       return *rc::gen::arbitrary<bool>();
                     });
    if (remove.ids.empty() || *rc::gen::arbitrary<bool>()) return node_.command(std::move(remove));
    DeadLetterReplayCommand replay{remove.queue, remove.ids.back(), {}};
    replay.copy.batches.push_back(batch_of(queue(), "p1", {"dlq:" + replay.dlq_id.str()}));
    return node_.command(std::move(replay));
  }
  Command trace() {
    TraceCommand trace;
    if (*rc::gen::arbitrary<bool>()) trace.pid = Pid{*rc::gen::inRange<std::uint64_t>(1, 4)};
    trace.transaction_id = *rc::gen::element<std::string>("t", "u");
    trace.row.id = numbered_uuid(100'000 + next_id_++);
    trace.row.event_type = "event";
    trace.row.data = "1";
    trace.row.names = *rc::gen::element(std::vector<std::string>{}, std::vector<std::string>{"x", "y"});
    return node_.command(std::move(trace));
  }
  // Moves that a scanner would propose, and some that it would not.
  Command retention() {
    RetentionCommand command;
    command.cleanup_us = 30 * kSecond;
    command.rows_window = *rc::gen::arbitrary<bool>();
    command.dead_letters_max = *rc::gen::inRange<std::uint32_t>(0, 2);
    node_.store.scan(Keyspace::partitions, {}, {}, [&](BytesView key, BytesView value) {
      command.moves.push_back(move_of(*store::parse_partition_key(key), *store::PartitionRow::decode(value)));
      return true;
    });
    return node_.command(std::move(command));
  }
  RetentionMove move_of(Pid pid, const store::PartitionRow& partition) {
    RetentionMove move;
    move.pid = pid;
    move.remove = *rc::gen::inRange(0, 4) == 0;
    move.log_start_from = partition.log_start;
    node_.store.scan(Keyspace::txns, store::txns_prefix(pid), {}, [&](BytesView, BytesView value) {
      const auto row = *store::AppendRowView::decode(value);
      move.log_start = move.txns_start = move.rows_start = row.end + 1;
      move.log_stamp = move.txns_stamp = move.rows_stamp = row.created_at;
      move.retained_bytes += row.retained_bytes.value_or(0);
      return *rc::gen::inRange(0, 3) != 0;
    });
    return move;
  }

  Node& node_;
  std::uint64_t next_id_ = 0;
  std::vector<Lease> leases_;
};

void configure(Node& node) {
  for (const char* queue : {"q", "r"})
    node.configure({{"retentionEnabled", 1},
                    {"retentionSeconds", 20},
                    {"completedRetentionSeconds", 5},
                    {"dedupWindowSeconds", 15}},
                   queue);
}

// One entry, planned, run on an overlay and applied.
void step(Node& node, Commands& commands) {
  node.now += *rc::gen::inRange<std::int64_t>(1, 20 * kSecond);
  std::vector<Command> batch;
  const int count = *rc::gen::inRange(1, 4);
  for (int i = 0; i < count; ++i) batch.push_back(commands.next());
  PlannedCycle cycle = node.plan(batch);
  for (std::size_t i = 0; i < batch.size(); ++i)
    if (const auto* pop = std::get_if<PopCommand>(&batch[i].body))
      commands.popped(*pop, std::get<PopOutcome>(cycle.outcomes[i].body));
  if (!cycle.entry) return;
  store::Overlay overlay(node.store);
  overlay.set_epoch(node.next_index);
  run_first(overlay, *cycle.entry, EntryIndex{node.next_index}, cycle.entry->effects.size());
  const Rows foreseen = rows_of(overlay);
  node.apply(*cycle.entry);
  RC_ASSERT(foreseen == rows_of(node.store));
}

// What counts is what the rows say: retained bytes by partition add up, and nothing is left of nothing.
void check_gauges(const store::Store& store) {
  std::map<Bytes, std::int64_t> by_queue;
  const auto retained = [&](store::CounterScope scope, const Bytes& id) -> std::int64_t {
    const auto bytes =
        store.get(Keyspace::counters, store::counter_key(scope, id, store::Counter::retained_bytes));
    return bytes ? *store::decode_i64_row(*bytes) : 0;
  };
  store.scan(Keyspace::partitions, {}, {}, [&](BytesView key, BytesView value) {
    const auto row = *store::PartitionRow::decode(value);
    RC_ASSERT(row.txns_start <= row.log_start && row.txns_start <= row.rows_start);
    RC_ASSERT(row.log_start <= row.last_offset + 1 && row.rows_start <= row.last_offset + 1);
    const auto own =
        retained(store::CounterScope::partition, store::counter_id(*store::parse_partition_key(key)));
    RC_ASSERT((own == 0) == (row.log_start > row.last_offset));
    by_queue[store::counter_id(row.tenant, row.queue)] += own;
    return true;
  });
  for (const auto& [queue, bytes] : by_queue) RC_ASSERT(retained(store::CounterScope::queue, queue) == bytes);
  store.scan(Keyspace::pending, {}, {}, [&](BytesView key, BytesView) {
    const auto pid = store::pending_pid(key);
    RC_ASSERT(store.get(Keyspace::partitions, store::partition_key(*pid)).has_value());
    return true;
  });
}

RC_GTEST_PROP(Everything, OverlayAndApplyEndWithTheSameRowsAndReplaysWithTheSameDigest, ()) {
  Node node;
  configure(node);
  Commands commands(node);
  const int steps = *rc::gen::inRange(1, 50);
  for (int i = 0; i < steps; ++i) step(node, commands);
  check_gauges(node.store);
  FindingList found;
  check_state(node.store, "store", found);
  if (!found.all.empty()) RC_FAIL(found.all.front().what);

  const auto crash = *rc::gen::inRange<std::size_t>(0, node.entries.size());
  auto replica = std::make_unique<store::Store>();
  for (std::size_t i = 0; i < node.entries.size(); ++i) {
    const Entry& entry = node.entries[i];
    if (i == crash) {
      // Some effects have run when the node stops: its RAM is lost, the checkpoint is from before the entry.
      auto checkpoint = std::make_unique<store::Store>();
      copy_rows(*replica, *checkpoint);
      run_first(*replica, entry, EntryIndex{i + 1},
                *rc::gen::inRange<std::size_t>(0, entry.effects.size() + 1));
      replica = std::move(checkpoint);
      for (std::size_t again = 0; again < i; ++again)
        RC_ASSERT(apply_entry(*replica, EntryIndex{again + 1}, 0, node.entries[again])->skipped);
    }
    RC_ASSERT(apply_entry(*replica, EntryIndex{i + 1}, 0, entry).has_value());
  }
  RC_ASSERT(digest_chain(*replica) == digest_chain(node.store));
  RC_ASSERT(replica->digest() == node.store.digest());

  // Everything deleted, nothing is left but what is not of queues.
  for (const char* queue : {"q", "r"}) node.one<QueueDeleteOutcome>(QueueDeleteCommand{queue, 0});
  while (node.one<GarbageOutcome>(GarbageCommand{}).more) {
  }
  node.now += 1'000 * kSecond;
  while (node.one<TraceExpireOutcome>(TraceExpireCommand{1, 7}).more) {
  }
  RC_ASSERT(rows_of(node.store).empty());
}

// AP-7
TEST(DigestChain, TellsApartNodesThatWentThroughDifferentStates) {
  Node one;
  Node other;
  one.push("p", {"a"});
  other.push("p", {"a"});
  EXPECT_EQ(digest_chain(one.store), digest_chain(other.store));
  EXPECT_NE(digest_chain(one.store), 0U);
  one.push("p", {"b"});
  other.push("p", {"c"});
  EXPECT_NE(digest_chain(one.store), digest_chain(other.store));
}

}  // namespace
}  // namespace queen::machine
