// Appends whose rows left RAM (storage.md RT-9, RT-10, D-2): every answer is the one that the rows would
// give.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "machine/detail/lookup.h"
#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;

// A node whose append rows may leave; what the log keeps of them is remembered here and answers its asks.
class ColdNode : public Node {
 public:
  std::map<ColdFacts::Key, ColdAppend> log;
  int asked = 0;  // commands that had to be submitted again
  int looked_back = 0;

  // Every append row from `pid` is remembered, as the log would have it.
  void remember() {
    store.scan(store::Keyspace::txns, {}, {}, [&](BytesView key, BytesView value) {
      const auto at = store::parse_txns_key(key);
      const auto row = *store::AppendRowView::decode(value);
      log[{at->pid, at->base_offset}] =
          ColdAppend{row.end, row.created_at, row.retained_bytes.value_or(0), Bytes(row.hashes)};
      return true;
    });
  }
  // Rows of `pid` that end below `rows_start` leave.
  std::uint32_t drop_rows(Pid pid, std::int64_t rows_start) {
    remember();
    RetentionMove move;
    move.pid = pid;
    move.rows_start = rows_start;
    for (const auto& [key, append] : log)
      if (key.pid == pid && append.end == rows_start - 1) move.rows_stamp = append.created_at;
    RetentionCommand command;
    command.moves.push_back(move);
    command.txn_window_min_us = 60 * kSecond;
    return one<RetentionOutcome>(std::move(command)).moved;
  }
  store::PartitionRow partition(Pid pid) {
    return *store::PartitionRow::decode(*store.get(store::Keyspace::partitions, store::partition_key(pid)));
  }

  PopOutcome answer(PopCommand pop) {
    for (int round = 0; round < 20; ++round) {
      PopOutcome out = one<PopOutcome>(pop);
      if (out.cold_asks.empty()) return out;
      EXPECT_TRUE(out.claims.empty());
      ++asked;
      tell(out.cold_asks, pop.cold);
    }
    ADD_FAILURE() << "a pop that asks for ever";
    return {};
  }
  SeekOutcome answer(SeekCommand seek) {
    for (int round = 0; round < 20; ++round) {
      SeekOutcome out = one<SeekOutcome>(seek);
      if (out.cold_asks.empty()) return out;
      ++asked;
      tell(out.cold_asks, seek.cold);
    }
    ADD_FAILURE() << "a seek that asks for ever";
    return {};
  }
  AckOutcome answer(AckCommand ack) {
    for (int round = 0; round < 20; ++round) {
      AckOutcome out = one<AckOutcome>(ack);
      if (!out.cold_asks.empty()) {
        ++asked;
        tell(out.cold_asks, ack.cold);
        continue;
      }
      look_back(ack, out);
      return out;
    }
    ADD_FAILURE() << "an ack that asks for ever";
    return {};
  }

 private:
  void tell(const std::vector<ColdAsk>& asks, ColdFacts& facts) {
    for (const ColdAsk& ask : asks) {
      if (ask.kind == ColdAsk::Kind::appends)
        tell_appends(ask, facts);
      else
        tell_start(ask, facts);
    }
  }
  void tell_start(const ColdAsk& ask, ColdFacts& facts) {
    ColdStart start{ask, ask.to + 1, 0};
    for (const auto& [key, append] : log) {
      if (key.pid != ask.pid || append.end < ask.from || append.created_at < ask.since_us) continue;
      if (std::max(key.base, ask.from) <= ask.to)
        start = {ask, std::max(key.base, ask.from), append.created_at};
      break;
    }
    facts.starts.push_back(start);
  }
  void tell_appends(const ColdAsk& ask, ColdFacts& facts) {
    std::uint64_t bytes = 0;
    std::int64_t next = ask.from;
    for (const auto& [key, append] : log) {
      if (key.pid != ask.pid || append.end < ask.from || key.base > ask.to) continue;
      if (ask.bytes_max > 0 && bytes >= ask.bytes_max) break;
      facts.appends[key] = append;
      if (ask.bytes_max > 0) facts.appends[key].hashes.clear();
      bytes += append.raw_bytes;
      next = append.end + 1;
    }
    const bool whole = ask.bytes_max == 0 || bytes < ask.bytes_max;
    facts.covered.push_back({ask.pid, ask.from, whole ? ask.to : std::min(ask.to, next - 1)});
  }
  void look_back(const AckCommand& ack, AckOutcome& out) {
    for (const auto& back : out.look_back) {
      ++looked_back;
      ColdFacts facts;
      tell_appends(back.range, facts);
      for (const auto& [key, append] : facts.appends)
        for (std::size_t i = 0; i * 16 < append.hashes.size(); ++i)
          for (const std::size_t item : back.items) {
            const std::int64_t offset = key.base + static_cast<std::int64_t>(i);
            if (offset < back.range.from || offset > back.range.to) continue;
            if (BytesView(append.hashes).substr(i * 16, 16) != ack.items[item].hash.view()) continue;
            out.items[item].success = out.items[item].noop = true;
            out.items[item].error.clear();
          }
    }
  }
};

class Cold : public ::testing::Test {
 protected:
  void SetUp() override { node.configure({{"dedupWindowSeconds", 60}}); }
  PopCommand named(const std::string& group, Subscription::Mode mode = Subscription::Mode::all) {
    PopCommand pop = node.pop_command();
    pop.group = group;
    pop.subscription.mode = mode;
    return pop;
  }
  // Ten messages, ten seconds apart; the rows of the first `dropped` leave.
  Pid ten(std::int64_t dropped) {
    Pid pid;
    for (int i = 0; i < 10; ++i) {
      stamps.push_back(node.now);
      pid = node.push("p", {std::to_string(i)}).pid;
      node.now += 10 * kSecond;
    }
    node.now += 3'600 * kSecond;
    EXPECT_EQ(node.drop_rows(pid, dropped), 1U);
    EXPECT_EQ(node.partition(pid).rows_start, dropped);
    EXPECT_EQ(node.partition(pid).log_start, 0);
    EXPECT_EQ(node.store.rows(store::Keyspace::txns), static_cast<std::size_t>(10 - dropped));
    return pid;
  }
  AckCommand ack_of(Pid pid, const std::string& id, AckStatus status, const std::string& lease,
                    const std::string& group) {
    AckCommand ack;
    ack.group = group;
    ack.items.push_back(node.ack_item(pid, id, status, lease));
    return ack;
  }
  ColdNode node;
  std::vector<std::int64_t> stamps;
};

// CE-8, RT-10
TEST_F(Cold, PopsHandOutMessagesWithoutRowsAndSaySo) {
  ten(6);
  const auto out = node.answer(named("g"));
  ASSERT_EQ(out.claims.size(), 1U);
  EXPECT_EQ(out.claims[0].first, 0U);
  EXPECT_EQ(out.claims[0].last, 9U);
  EXPECT_TRUE(out.claims[0].cold);
}

// RT-10 with F-3: where a group starts by time is looked up in the log when the rows cannot tell.
TEST_F(Cold, AGroupThatStartsByTimeFindsAMessageWithoutARow) {
  ten(6);
  for (const std::int64_t wanted : {0, 3, 5, 6, 8}) {
    PopCommand pop = named("g" + std::to_string(wanted), Subscription::Mode::timestamp);
    pop.subscription.from_us = stamps[static_cast<std::size_t>(wanted)];
    const auto out = node.answer(pop);
    ASSERT_EQ(out.claims.size(), 1U) << wanted;
    EXPECT_EQ(out.claims[0].first, static_cast<std::uint64_t>(wanted));
  }
  EXPECT_GT(node.asked, 0);
}

// RT-10 with G-1: a seek that has to ask has moved nothing, and ends where it would with rows.
TEST_F(Cold, ASeekFindsAMessageWithoutARow) {
  const Pid pid = ten(6);
  SeekCommand seek;
  seek.queue = "q";
  seek.group = "g";
  for (const std::int64_t wanted : {3, 0, 5, 6, 8}) {
    seek.since_us = stamps[static_cast<std::size_t>(wanted)];
    const auto before = node.cursor(pid, "g");
    const bool asks = !node.one<SeekOutcome>(seek).cold_asks.empty();
    EXPECT_TRUE(!asks || node.cursor(pid, "g") == before);
    EXPECT_EQ(node.answer(seek).partitions, 1U);
    EXPECT_EQ(node.cursor(pid, "g")->committed, wanted - 1);
  }
  EXPECT_GT(node.asked, 0);
}

// RT-10 with F-3: no row is left at all.
TEST_F(Cold, AGroupThatStartsByTimeFindsItsStartWhenEveryRowIsGone) {
  ten(10);
  PopCommand pop = named("g", Subscription::Mode::timestamp);
  pop.subscription.from_us = stamps[9];
  EXPECT_EQ(node.answer(pop).claims.at(0).first, 9U);
  pop = named("late", Subscription::Mode::timestamp);
  pop.subscription.from_us = stamps[9] + kSecond;
  EXPECT_TRUE(node.answer(pop).claims.empty());
}

// RT-10 with A-1: ids of a leased batch that has no rows.
TEST_F(Cold, AnAckFindsTheIdsOfABatchWithoutRows) {
  const Pid pid = ten(10);
  node.answer(named("g"));
  const auto out = node.answer(ack_of(pid, "4", AckStatus::completed, node.last_lease, "g"));
  EXPECT_TRUE(out.items[0].success);
  EXPECT_EQ(node.cursor(pid, "g")->committed, 4);
  EXPECT_GT(node.asked, 0);
}

// An ack that asks has decided nothing.
TEST_F(Cold, AnAckThatHasToAskChangesNothing) {
  const Pid pid = ten(10);
  node.answer(named("g"));
  const auto before = node.cursor(pid, "g");
  const auto index = node.next_index;
  const auto out = node.one<AckOutcome>(ack_of(pid, "4", AckStatus::completed, node.last_lease, "g"));
  EXPECT_FALSE(out.cold_asks.empty());
  EXPECT_EQ(node.next_index, index);
  EXPECT_EQ(node.cursor(pid, "g"), before);
}

// DD-9: after its row is gone, a completed message is recognised among the last that the group consumed.
TEST_F(Cold, ARepeatedAckIsRecognisedWhenTheRowIsGone) {
  const Pid pid = ten(10);
  node.answer(named("g"));
  ASSERT_TRUE(node.answer(ack_of(pid, "9", AckStatus::completed, node.last_lease, "g")).items[0].success);
  const auto again = node.answer(ack_of(pid, "3", AckStatus::completed, "", "g"));
  EXPECT_TRUE(again.items[0].success && again.items[0].noop);
  EXPECT_GT(node.looked_back, 0);
  EXPECT_FALSE(node.answer(ack_of(pid, "never", AckStatus::completed, "", "g")).items[0].success);
  EXPECT_FALSE(node.answer(ack_of(pid, "3", AckStatus::failed, "", "g")).items[0].success);
}

// RT-9: a row by which a delay is judged stays, and a delay that was raised later asks the log.
TEST_F(Cold, ADelayThatWasRaisedAfterRowsLeftStillHolds) {
  ten(10);
  const std::int64_t age = (node.now - stamps[9]) / kSecond;
  node.configure({{"dedupWindowSeconds", 60}, {"delayedProcessing", age + 15}});
  const auto out = node.answer(named("g"));
  ASSERT_EQ(out.claims.size(), 1U);
  EXPECT_EQ(out.claims[0].last, 8U - 1U);
}

// C-1: the newest message of a conflating claim has no row; its id is read for the ack.
TEST_F(Cold, AConflatedLeaseWithoutARowCanBeAcked) {
  const Pid pid = ten(10);
  PopCommand pop = named("latest");
  pop.conflation = true;
  const auto out = node.answer(pop);
  ASSERT_EQ(out.claims.size(), 1U);
  EXPECT_EQ(out.claims[0].deliver_from, 9U);
  EXPECT_TRUE(
      node.answer(ack_of(pid, "9", AckStatus::completed, node.last_lease, "latest")).items[0].success);
  EXPECT_EQ(node.cursor(pid, "latest")->committed, 9);
}

// A pop hands out at most 32 MiB of frames, with rows and without.
TEST_F(Cold, APopOfMessagesWithoutRowsKeepsItsBytes) {
  const Pid pid = ten(10);
  for (auto& [key, append] : node.log) append.raw_bytes = 12U << 20;
  auto out = node.answer(named("g"));
  ASSERT_EQ(out.claims.size(), 1U);
  EXPECT_EQ(out.claims[0].last, 1U);
  for (auto& [key, append] : node.log) append.raw_bytes = 40U << 20;
  EXPECT_EQ(node.answer(named("h")).claims.at(0).last, 0U);
  EXPECT_EQ(pid.value, 1U);
}

// One random script on two nodes: rows leave on one of them only.
class TwoNodes {
 public:
  explicit TwoNodes(unsigned seed) : random_(seed), began_(warm_.now) {
    both([](ColdNode& node) { node.configure({{"dedupWindowSeconds", 60}, {"retryLimit", 1}}); });
  }
  void step() {
    const std::int64_t pause = below(3) == 0 ? below(40) * kSecond : kSecond;
    both([&](ColdNode& node) { node.now += pause; });
    const std::string group = std::vector<std::string>{"all", "time", "latest", "q"}[index_below(4)];
    switch (below(5)) {
      case 0:
      case 1:
        return push();
      case 2:
        return pop(group);
      case 3:
        return ack(group);
      default:
        return drop_rows();
    }
  }
  void compare_state() {
    for (const Pid pid : {Pid{1}, Pid{2}})
      for (const char* name : {"all", "time", "latest", "__QUEUE_MODE__"}) compare_cursors(pid, name);
    ASSERT_EQ(warm_.dead_letters(), cold_.dead_letters());
  }
  int asked() const { return cold_.asked + cold_.looked_back; }
  int warm_asked() const { return warm_.asked; }

 private:
  int below(unsigned n) { return static_cast<int>(random_() % n); }
  std::size_t index_below(std::size_t n) { return random_() % n; }
  template <class Act>
  void both(Act&& act) {
    act(warm_);
    act(cold_);
  }

  void push() {
    const std::string partition = "p" + std::to_string(below(2));
    std::vector<std::string> ids;
    for (int i = below(3); i >= 0; --i) ids.push_back("id" + std::to_string(below(30)));
    const auto a = warm_.push(partition, ids);
    const auto b = cold_.push(partition, ids);
    ASSERT_EQ(a.pid, b.pid);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ASSERT_EQ(a.items[i].offset, b.items[i].offset);
      known_.emplace_back(a.pid, ids[i]);
    }
  }
  void pop(const std::string& group) {
    PopCommand pop = warm_.pop_command(static_cast<std::uint32_t>(1 + below(8)));
    pop.group = group == "q" ? std::string(kQueueMode) : group;
    pop.subscription.mode = group == "time" ? Subscription::Mode::timestamp : Subscription::Mode::all;
    pop.subscription.from_us = began_ + 120 * kSecond;
    if (group == "latest") pop.conflation = true;
    pop.commit_on_delivery = group == "q" && below(4) == 0;
    pop.lease_seconds = 20;
    lease_ = pop.lease_id.str();
    const auto a = warm_.answer(pop);
    const auto b = cold_.answer(pop);
    ASSERT_EQ(a.claims.size(), b.claims.size());
    std::map<Pid, PopClaim> by_pid;
    for (const auto& claim : a.claims) by_pid[claim.pid] = claim;
    for (const auto& claim : b.claims) {
      ASSERT_TRUE(by_pid.contains(claim.pid));
      ASSERT_EQ(by_pid[claim.pid].first, claim.first);
      ASSERT_EQ(by_pid[claim.pid].last, claim.last);
      ASSERT_EQ(by_pid[claim.pid].delivery_attempt, claim.delivery_attempt);
    }
    if (!pop.commit_on_delivery) return;
    warm_.settle(pop, a);
    cold_.settle(pop, b);
  }
  void ack(const std::string& group) {
    if (known_.empty()) return;
    AckCommand ack;
    ack.group = group == "q" ? std::string(kQueueMode) : group;
    for (int i = below(3); i >= 0; --i) {
      const auto& [pid, id] = known_[index_below(known_.size())];
      const auto status = std::vector<AckStatus>{AckStatus::completed, AckStatus::completed,
                                                 AckStatus::failed, AckStatus::dlq}[index_below(4)];
      ack.items.push_back(warm_.ack_item(pid, id, status, below(2) == 0 ? lease_ : ""));
    }
    const auto a = warm_.answer(ack);
    const auto b = cold_.answer(ack);
    for (std::size_t i = 0; i < ack.items.size(); ++i) {
      ASSERT_EQ(a.items[i].success, b.items[i].success);
      ASSERT_EQ(a.items[i].noop, b.items[i].noop);
      ASSERT_EQ(a.items[i].dlq, b.items[i].dlq);
      ASSERT_EQ(a.items[i].error, b.items[i].error);
    }
  }
  void drop_rows() {
    cold_.remember();
    std::map<Pid, std::int64_t> rows_start;
    for (const auto& [key, append] : cold_.log)
      if (append.created_at < cold_.now - 61 * kSecond) rows_start[key.pid] = append.end + 1;
    for (const auto& [pid, start] : rows_start) cold_.drop_rows(pid, start);
  }
  void compare_cursors(Pid pid, const std::string& name) {
    const auto a = warm_.cursor(pid, name);
    const auto b = cold_.cursor(pid, name);
    ASSERT_EQ(a.has_value(), b.has_value()) << name;
    if (!a) return;
    ASSERT_EQ(a->committed, b->committed) << name;
    ASSERT_EQ(a->batch_end, b->batch_end) << name;
    ASSERT_EQ(a->delivered, b->delivered) << name;
  }

  ColdNode warm_, cold_;
  std::mt19937 random_;
  const std::int64_t began_;
  std::vector<std::pair<Pid, std::string>> known_;
  std::string lease_;
};

TEST(ColdEquivalence, ARandomScriptGetsTheSameAnswersWithAndWithoutRows) {
  int asked = 0;
  for (unsigned seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    TwoNodes nodes(seed);
    for (int step = 0; step < 150 && !HasFailure(); ++step) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " step " + std::to_string(step));
      nodes.step();
      nodes.compare_state();
    }
    asked += nodes.asked();
    EXPECT_EQ(nodes.warm_asked(), 0);
  }
  EXPECT_GT(asked, 100);
}

}  // namespace
}  // namespace queen::machine
