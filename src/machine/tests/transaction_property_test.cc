// T-1 over random transactions: one that is rolled back leaves no effect, no row, no number and no memory;
// one that takes place does what its parts do alone.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "machine/check_state.h"
#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;

const std::vector<std::string> kQueues = {"q", "r"};
const std::vector<std::string> kPartitions = {"p1", "p2", "p3"};
const std::vector<std::string> kGroups = {"g1", "g2", std::string(kQueueMode)};

// Commands over few names and ids, so that parts of a transaction often meet what refuses them.
class Script {
 public:
  explicit Script(Node& node) : node_(node) {}

  Command next() {
    switch (*rc::gen::inRange(0, 10)) {
      case 0:
      case 1:
        return node_.command(push(2));
      case 2:
      case 3:
        return pop();
      case 4:
        return node_.command(ack());
      default:
        return node_.command(transaction());
    }
  }
  void popped(const Command& command, const Outcome& outcome) {
    const auto* out = std::get_if<PopOutcome>(&outcome.body);
    if (out == nullptr) return;
    const auto& pop = std::get<PopCommand>(command.body);
    for (const PopClaim& claim : out->claims)
      leases_.push_back({pop.group, pop.lease_id.str(), claim.pid, static_cast<std::int64_t>(claim.first)});
    if (leases_.size() > 6) leases_.erase(leases_.begin());
  }
  TransactionCommand transaction() {
    TransactionCommand out;
    const int acks = *rc::gen::inRange(0, 3);
    for (int i = 0; i < acks; ++i) {
      AckCommand one = ack();
      const auto same = std::find_if(out.acks.begin(), out.acks.end(),
                                     [&](const AckCommand& each) { return each.group == one.group; });
      if (same == out.acks.end()) out.acks.push_back(std::move(one));
    }
    if (*rc::gen::arbitrary<bool>()) out.push = push(*rc::gen::inRange(1, 4));
    const int positions = *rc::gen::inRange(0, 2);
    for (int i = 0; i < positions; ++i) out.positions.push_back(position());
    out.kv = kv();
    return out;
  }

 private:
  struct Lease {
    std::string group, id;
    Pid pid;
    std::int64_t first = 0;
  };

  PushCommand push(int batches) {
    PushCommand push;
    std::set<std::pair<std::string, std::string>> places;
    for (int i = 0; i < batches; ++i) {
      const auto queue = *rc::gen::elementOf(kQueues);
      const auto partition = *rc::gen::elementOf(kPartitions);
      if (!places.emplace(queue, partition).second) continue;
      std::vector<std::string> ids;
      const int count = *rc::gen::inRange(1, 3);
      for (int j = 0; j < count; ++j) ids.push_back("m" + std::to_string(*rc::gen::inRange(0, 400)));
      push.batches.push_back(batch_of(queue, partition, ids));
    }
    return push;
  }
  Command pop() {
    PopCommand pop = node_.pop_command(*rc::gen::inRange<std::uint32_t>(1, 4));
    pop.queue = *rc::gen::elementOf(kQueues);
    pop.group = *rc::gen::elementOf(kGroups);
    pop.subscription.mode = Subscription::Mode::all;
    pop.lease_seconds = 20;
    return node_.command(std::move(pop));
  }
  AckCommand ack() {
    AckCommand ack;
    ack.group = *rc::gen::elementOf(kGroups);
    for (const Lease& lease : leases_) {
      if (lease.group != ack.group || *rc::gen::inRange(0, 2) == 0) continue;
      const auto bytes = node_.store.get(store::Keyspace::txns, store::txns_key(lease.pid, lease.first));
      AckItem item = node_.ack_item(
          lease.pid, "?", *rc::gen::element(AckStatus::completed, AckStatus::failed, AckStatus::dlq),
          *rc::gen::inRange(0, 4) == 0 ? "" : lease.id);
      if (bytes) item.hash = store::AppendRowView::decode(*bytes)->hash(0);
      ack.items.push_back(std::move(item));
    }
    return ack;
  }
  Position position() {
    Position out;
    out.queue = *rc::gen::element<std::string>("q", "r", "missing");
    out.partition = *rc::gen::elementOf(kPartitions);
    out.group = *rc::gen::elementOf(kGroups);
    if (*rc::gen::inRange(0, 3) > 0) out.offset = *rc::gen::inRange(0, 6);
    out.metadata = *rc::gen::element<std::string>("", "note");
    return out;
  }
  KvCommand kv() {
    KvCommand kv;
    const int ops = *rc::gen::inRange(0, 3);
    for (int i = 0; i < ops; ++i) {
      KvOp op;
      op.kind = *rc::gen::element(KvKind::put, KvKind::put_if_absent, KvKind::del, KvKind::get);
      op.ns = "n";
      op.key = "k" + std::to_string(i) + std::to_string(*rc::gen::inRange(0, 3));
      op.value = "1";
      op.required = *rc::gen::inRange(0, 3) == 0;
      kv.ops.push_back(std::move(op));
    }
    return kv;
  }

  Node& node_;
  std::vector<Lease> leases_;
};

bool rolled_back(const Outcome& outcome) {
  const auto* out = std::get_if<TransactionOutcome>(&outcome.body);
  return out != nullptr && !out->reason.empty();
}

void check(const Node& node) {
  FindingList found;
  check_state(node.store, "", found);
  RC_ASSERT(found.all.empty());
}

// Two nodes run the same commands, one of them without those that the other rolled back: they log the same
// bytes. That is all that a command can leave, and the planner's view behind it decides the same.
RC_GTEST_PROP(TransactionProperty, ARolledBackOneIsAsIfItHadNeverCome, ()) {
  Node node;
  Node without;
  Script script(node);
  int rollbacks = 0, taken = 0;
  for (const std::string& queue : kQueues)
    for (Node* each : {&node, &without}) each->configure({{"retryLimit", 1}}, queue);
  constexpr int kSteps = 30;
  for (int i = 0; i < kSteps; ++i) {
    without.now = node.now += *rc::gen::inRange<std::int64_t>(1, 8 * kSecond);
    std::vector<Command> batch;
    const int count = *rc::gen::inRange(1, 6);
    for (int j = 0; j < count; ++j) batch.push_back(script.next());
    PlannedCycle cycle = node.plan(batch);
    std::vector<Command> rest;
    for (std::size_t j = 0; j < batch.size(); ++j) {
      script.popped(batch[j], cycle.outcomes[j]);
      const bool dropped = rolled_back(cycle.outcomes[j]);
      (dropped ? rollbacks : taken) += 1;
      if (!dropped) rest.push_back(batch[j]);
    }
    PlannedCycle same = without.plan(rest);
    RC_ASSERT(same.entry.has_value() == cycle.entry.has_value());
    if (!cycle.entry) continue;
    RC_ASSERT(encode_entry(*same.entry) == encode_entry(*cycle.entry));
    node.apply(*cycle.entry);
    without.apply(*same.entry);
    RC_ASSERT(node.store.digest() == without.store.digest());
  }
  check(node);
  RC_CLASSIFY(rollbacks > 0);
  RC_CLASSIFY(taken > 0);
}

// Acks, pushes and KV operations of a transaction that takes place have the effects of the same commands
// alone.
RC_GTEST_PROP(TransactionProperty, OneThatTakesPlaceDoesWhatItsPartsDo, ()) {
  Node node;
  Node apart;
  Script script(node);
  for (const std::string& queue : kQueues) {
    for (Node* each : {&node, &apart}) {
      each->configure({{"retryLimit", 1}}, queue);
      for (const std::string& partition : kPartitions) each->push(partition, {"first"}, queue);
    }
  }
  constexpr int kSteps = 30;
  for (int i = 0; i < kSteps; ++i) {
    apart.now = node.now += *rc::gen::inRange<std::int64_t>(1, 8 * kSecond);
    Command command = script.next();
    auto* transaction = std::get_if<TransactionCommand>(&command.body);
    if (transaction != nullptr) transaction->positions.clear();
    PlannedCycle cycle = node.plan({command});
    script.popped(command, cycle.outcomes[0]);
    if (rolled_back(cycle.outcomes[0])) continue;
    std::vector<Command> parts;
    if (transaction == nullptr) {
      parts.push_back(command);
    } else {
      for (const AckCommand& ack : transaction->acks) parts.push_back(node.command(ack));
      parts.push_back(node.command(transaction->push));
      parts.push_back(node.command(transaction->kv));
    }
    PlannedCycle split = apart.plan(parts);
    RC_ASSERT(split.entry.has_value() == cycle.entry.has_value());
    if (!cycle.entry) continue;
    node.apply(*cycle.entry);
    apart.apply(*split.entry);
    RC_ASSERT(node.store.digest() == apart.store.digest());
  }
  check(node);
}

}  // namespace
}  // namespace queen::machine
