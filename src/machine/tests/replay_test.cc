// Random commands through the planner, the bytes and apply: a second node that only replays ends with the
// same rows, and what was delivered keeps the contract.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;

struct Lease {
  std::string id, group;
  Pid pid;
  std::uint64_t first = 0, last = 0;
  std::int64_t expires = 0;
};

// Makes random commands and checks what is answered against what was answered before.
class Workload {
 public:
  explicit Workload(Node& node) : node_(node) {}

  void step() {
    node_.now += *rc::gen::inRange<std::int64_t>(1, 10 * kSecond);
    std::vector<Command> commands;
    const int count = *rc::gen::inRange(1, 4);
    for (int i = 0; i < count; ++i) commands.push_back(random_command());
    const auto outcomes = node_.run(commands);
    for (std::size_t i = 0; i < commands.size(); ++i) {
      if (const auto* pop = std::get_if<PopCommand>(&commands[i].body))
        popped(*pop, std::get<PopOutcome>(outcomes[i].body));
      if (const auto* ack = std::get_if<AckCommand>(&commands[i].body))
        acked(*ack, std::get<AckOutcome>(outcomes[i].body));
      if (const auto* push = std::get_if<PushCommand>(&commands[i].body))
        pushed(*push, std::get<PushOutcome>(outcomes[i].body));
    }
  }

  // Everything pushed is delivered to every group in the end, and acked: nothing is lost, nothing comes after
  // its ack.
  void drain(const std::string& group) {
    for (int round = 0; round < 500; ++round) {
      node_.now += 61 * kSecond;
      leases_.clear();
      PopCommand pop = pop_of(group);
      pop.partitions_max = 64;
      const auto out = node_.one<PopOutcome>(pop);
      if (out.claims.empty()) break;
      popped(pop, out);
      AckCommand ack;
      ack.group = group;
      for (const PopClaim& claim : out.claims)
        ack.items.push_back(node_.ack_item(claim.pid, ids_[claim.pid.value][claim.last], AckStatus::completed,
                                           pop.lease_id.str()));
      const auto acks = node_.one<AckOutcome>(ack);
      for (const AckItemOutcome& item : acks.items) RC_ASSERT(item.lease_released);
      acked(ack, acks);
    }
    for (const auto& [pid, ids] : ids_)
      RC_ASSERT(node_.cursor(Pid{pid}, group)->committed == static_cast<std::int64_t>(ids.size()) - 1);
  }

 private:
  PopCommand pop_of(const std::string& group) {
    PopCommand pop = node_.pop_command(*rc::gen::inRange<std::uint32_t>(1, 8));
    pop.group = group;
    pop.subscription.mode = Subscription::Mode::all;
    pop.lease_seconds = 20;
    return pop;
  }
  Command random_command() {
    const std::string group = *rc::gen::element<std::string>("g1", "g2");
    switch (*rc::gen::inRange(0, 6)) {
      case 0:
      case 1: {
        PushCommand push;
        std::vector<std::string> ids;
        const int items = *rc::gen::inRange(1, 5);
        for (int i = 0; i < items; ++i) ids.push_back("m" + std::to_string(next_id_++));
        push.batches.push_back(batch_of("q", *rc::gen::element<std::string>("p1", "p2", "p3"), ids));
        return node_.command(std::move(push));
      }
      case 2:
      case 3: {
        PopCommand pop = pop_of(group);
        pop.partitions_max = *rc::gen::inRange<std::uint32_t>(1, 4);
        return node_.command(std::move(pop));
      }
      case 4:
        return node_.command(random_ack(group));
      default: {
        KvOp put;
        put.kind = *rc::gen::element(KvKind::put, KvKind::del);
        put.ns = "ns";
        put.key = *rc::gen::element<std::string>("a", "b");
        put.value = "1";
        put.ttl_seconds = 5;
        return node_.command(KvCommand{{put}});
      }
    }
  }
  AckCommand random_ack(const std::string& group) {
    AckCommand ack;
    ack.group = group;
    for (const Lease& lease : leases_) {
      if (lease.group != group || *rc::gen::inRange(0, 2) == 0) continue;
      const auto offset = *rc::gen::inRange<std::uint64_t>(lease.first, lease.last + 1);
      ack.items.push_back(node_.ack_item(
          lease.pid, ids_[lease.pid.value][offset],
          *rc::gen::element(AckStatus::completed, AckStatus::completed, AckStatus::retry, AckStatus::failed),
          lease.id));
    }
    return ack;
  }

  void pushed(const PushCommand& push, const PushOutcome& out) {
    const auto& batch = push.batches[0];
    auto& ids = ids_[out.batches[0].pid.value];
    std::uint32_t begin = 0;
    for (std::size_t i = 0; i < batch.items(); ++i) {
      RC_ASSERT(out.batches[0].items[i].offset == ids.size());  // gapless, in order
      ids.push_back(batch.frames.substr(begin + 1, batch.frame_ends[i] - begin - 2));
      begin = batch.frame_ends[i];
    }
  }
  void popped(const PopCommand& pop, const PopOutcome& out) {
    const std::int64_t now = node_.now;
    std::erase_if(leases_, [&](const Lease& lease) { return lease.expires <= now; });
    for (const PopClaim& claim : out.claims) {
      for (const Lease& lease : leases_) RC_ASSERT(!(lease.group == pop.group && lease.pid == claim.pid));
      RC_ASSERT(static_cast<std::int64_t>(claim.first) == done(pop.group, claim.pid) + 1);
      leases_.push_back(
          {pop.lease_id.str(), pop.group, claim.pid, claim.first, claim.last, now + 20 * kSecond});
    }
  }
  void acked(const AckCommand& ack, const AckOutcome& out) {
    for (std::size_t i = 0; i < ack.items.size(); ++i) {
      const AckItem& item = ack.items[i];
      const Pid pid{std::stoull(item.partition_id)};
      const std::int64_t committed = node_.cursor(pid, ack.group)->committed;
      RC_ASSERT(committed >= done(ack.group, pid));
      done_[{ack.group, pid.value}] = committed;
      if (out.items[i].lease_released)
        std::erase_if(leases_,
                      [&](const Lease& lease) { return lease.id == item.lease_id && lease.pid == pid; });
    }
  }
  std::int64_t done(const std::string& group, Pid pid) {
    const auto at = done_.find({group, pid.value});
    return at == done_.end() ? -1 : at->second;
  }

  Node& node_;
  std::uint64_t next_id_ = 0;
  std::vector<Lease> leases_;
  std::map<std::uint64_t, std::vector<std::string>> ids_;  // by pid, in offset order
  std::map<std::pair<std::string, std::uint64_t>, std::int64_t> done_;
};

RC_GTEST_PROP(Replay, AnotherNodeEndsWithTheSameRowsAndRepeatsChangeNothing, ()) {
  Node node;
  Workload workload(node);
  const int steps = *rc::gen::inRange(1, 60);
  for (int i = 0; i < steps; ++i) workload.step();
  workload.drain("g1");
  workload.drain("g2");
  store::Store replica;
  const std::size_t crash = *rc::gen::inRange<std::size_t>(0, node.entries.size() + 1);
  for (std::size_t i = 0; i < node.entries.size(); ++i) {
    RC_ASSERT(apply_entry(replica, EntryIndex{i + 1}, 0, node.entries[i]).has_value());
    if (i != crash) continue;
    const std::uint64_t before = replica.digest();
    for (std::size_t again = 0; again <= i; ++again)
      RC_ASSERT(apply_entry(replica, EntryIndex{again + 1}, 0, node.entries[again])->skipped);
    RC_ASSERT(replica.digest() == before);
  }
  RC_ASSERT(replica.digest() == node.store.digest());
}

TEST(Apply, RefusesGapsAndForeignBasesBeforeItWrites) {
  Node node;
  node.push("p", {"a"});
  const std::uint64_t before = node.store.digest();
  Entry entry;
  entry.now_us = node.now + 1;
  entry.pid_base = 2;
  entry.kv_version_base = 1;
  entry.commands = {{numbered_uuid(500), 0, 1}};
  entry.effects.emplace_back(Noop{});
  EXPECT_FALSE(apply_entry(node.store, EntryIndex{3}, 0, entry));
  for (auto change : {+[](Entry& e) { e.pid_base = 1; }, +[](Entry& e) { e.kv_version_base = 9; },
                      +[](Entry& e) { e.now_us = 1; }, +[](Entry& e) { e.commands.clear(); }}) {
    Entry broken = entry;
    change(broken);
    EXPECT_FALSE(apply_entry(node.store, EntryIndex{2}, 0, broken));
    EXPECT_EQ(node.store.digest(), before);
  }
  EXPECT_TRUE(apply_entry(node.store, EntryIndex{2}, 0, entry));
}

TEST(Apply, AnEntryOfNothingOnlyMovesTheIndex) {
  store::Store store;
  ASSERT_TRUE(apply_entry(store, EntryIndex{1}, 7, Entry{}));
  EXPECT_EQ(applied_index(store), EntryIndex{1});
  EXPECT_EQ(store.rows(store::Keyspace::meta), 2U);
}

TEST(Apply, EffectsThatContradictTheRowsArePoison) {
  Node node;
  const Pid pid = node.push("p", {"a"}).pid;
  const auto refused = [&](Effect effect, std::uint64_t pid_base) {
    Entry entry;
    entry.now_us = node.now + 1;
    entry.pid_base = pid_base;
    entry.kv_version_base = 1;
    entry.commands = {{numbered_uuid(600), 0, 1}};
    entry.effects.push_back(std::move(effect));
    return !apply_entry(node.store, EntryIndex{2}, 0, entry).has_value();
  };
  Append append;
  append.pid = pid;
  append.base_offset = 2;
  append.count = 1;
  append.created_at = node.now + 1;
  append.hashes = Bytes(xxh3_128("x").view());
  EXPECT_TRUE(refused(append, 2));
  append.pid = Pid{99};
  append.base_offset = 0;
  EXPECT_TRUE(refused(append, 2));
  EXPECT_TRUE(refused(PartitionCreate{Pid{2}, numbered_uuid(1), kTenant, "q", "p", node.now}, 2));
}

TEST(Apply, NamesTheQueuesThatWaitersWatch) {
  Node node;
  const auto apply_all = [&](const std::vector<Command>& commands) {
    return node.apply(*node.plan(commands).entry).queues;
  };
  std::vector<Command> commands;
  PushCommand push;
  push.batches = {batch_of("b", "p", {"1"}), batch_of("a", "p", {"1"}), batch_of("a", "p2", {"1"})};
  commands.push_back(node.command(std::move(push)));
  EXPECT_EQ(apply_all(commands), (std::vector<Applied::QueueTouched>{{kTenant, "a"}, {kTenant, "b"}}));
  PopCommand pop = node.pop_command();
  pop.queue = "a";
  node.one<PopOutcome>(pop);
  HandBackCommand back{pop.group, pop.lease_id, {Pid{2}, Pid{3}}, {}, {}};
  commands.clear();
  commands.push_back(node.command(std::move(back)));
  EXPECT_EQ(apply_all(commands), (std::vector<Applied::QueueTouched>{{kTenant, "a"}}));
}

// W-4: whoever waits must come back when a lease or a hold ends, whatever effect began it.
TEST(Apply, NamesWhenSomethingOfAQueueIsReadyLater) {
  Node node;
  const auto apply_one = [&](Command command) {
    std::vector<Command> commands;
    commands.push_back(std::move(command));
    return node.apply(*node.plan(commands).entry);
  };
  node.configure({{"leaseTime", 9}, {"delayedProcessing", 4}});
  node.pop();
  PushCommand push;
  push.batches = {batch_of("q", "p", {"1"}), batch_of("q", "p2", {"1"})};
  const auto appended = apply_one(node.command(std::move(push)));
  ASSERT_EQ(appended.later.size(), 1U);
  EXPECT_EQ(appended.later[0].queue, "q");
  EXPECT_EQ(appended.later[0].at, *node.pending(Pid{1}));
  node.now = appended.later[0].at;
  PopCommand pop = node.pop_command();
  pop.partitions_max = 2;
  const auto claimed = apply_one(node.command(std::move(pop)));
  ASSERT_EQ(claimed.later.size(), 1U);
  EXPECT_EQ(claimed.later[0].at, *node.cursor(Pid{1})->lease_expires);
  EXPECT_TRUE(claimed.queues.empty());
}

}  // namespace
}  // namespace queen::machine
