#include "linearizable.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace queen::sim {
namespace {

using History = std::vector<KvCall>;

KvRow row(std::string value, std::uint64_t version) {
  return {std::move(value), version};
}
const KvRow kNone{};

struct Time {
  std::int64_t called = 0;
  std::optional<std::int64_t> returned;
};

KvCall put(Time at, std::string value, std::uint64_t version) {
  KvCall call;
  call.kind = KvKind::put;
  call.value = value;
  call.called = at.called;
  call.returned = at.returned;
  if (at.returned) call.answer = {true, row(std::move(value), version)};
  return call;
}
KvCall put_expecting(Time at, std::string value, std::uint64_t expect, KvAnswer answer) {
  KvCall call = put(at, std::move(value), 0);
  call.expect = expect;
  call.answer = std::move(answer);
  return call;
}
KvCall get(Time at, KvRow found) {
  KvCall call;
  call.called = at.called;
  call.returned = at.returned;
  call.answer.row = std::move(found);
  return call;
}
KvCall del(Time at, KvAnswer answer) {
  KvCall call;
  call.kind = KvKind::del;
  call.called = at.called;
  call.returned = at.returned;
  call.answer = std::move(answer);
  return call;
}
KvCall incr(Time at, std::int64_t delta, KvAnswer answer) {
  KvCall call = del(at, std::move(answer));
  call.kind = KvKind::incr;
  call.delta = delta;
  return call;
}

Explained verdict(const History& history) {
  return check_linearizable(history).explained;
}

TEST(Linearizable, TakesAnEmptyHistoryAndOneWithoutAnswers) {
  EXPECT_EQ(verdict({}), Explained::yes);
  EXPECT_EQ(verdict({put({1, {}}, "a", 0)}), Explained::yes);
}

TEST(Linearizable, LetsAReadBesideAWriteSeeEither) {
  EXPECT_EQ(verdict({put({1, 9}, "a", 7), get({2, 3}, kNone)}), Explained::yes);
  EXPECT_EQ(verdict({put({1, 9}, "a", 7), get({2, 3}, row("a", 7))}), Explained::yes);
}

TEST(Linearizable, RefusesAReadThatMissesAFinishedWrite) {
  const auto found = check_linearizable(History{put({1, 2}, "a", 7), get({3, 4}, kNone)});
  EXPECT_EQ(found.explained, Explained::no);
  EXPECT_EQ(found.answers, 2u);
  EXPECT_EQ(found.text, "[1, 2] put a: done, a (version 7)\n[3, 4] get: no row <- not explained\n");
}

TEST(Linearizable, RefusesReadsThatGoBack) {
  EXPECT_EQ(verdict({put({1, 2}, "a", 7), put({3, 20}, "b", 8), get({4, 5}, row("b", 8)),
                     get({6, 7}, row("a", 7))}),
            Explained::no);
}

TEST(Linearizable, NamesTheFirstAnswerThatNothingExplains) {
  const auto found = check_linearizable(
      History{put({1, 2}, "a", 7), get({3, 4}, row("b", 8)), put({5, 6}, "c", 9), get({7, 8}, kNone)});
  EXPECT_EQ(found.explained, Explained::no);
  EXPECT_EQ(found.answers, 2u);
  EXPECT_EQ(found.text.find("put c"), std::string::npos);
}

TEST(Linearizable, LetsAnUnansweredWriteHappenLateOrNever) {
  EXPECT_EQ(verdict({put({1, {}}, "a", 0), get({5, 6}, kNone), get({7, 8}, row("a", 3))}), Explained::yes);
  EXPECT_EQ(verdict({put({1, {}}, "a", 0), get({5, 6}, kNone)}), Explained::yes);
}

TEST(Linearizable, LetsAnUnansweredWriteHappenOnce) {
  EXPECT_EQ(verdict({put({1, {}}, "a", 0), get({5, 6}, row("a", 3)), put({7, 8}, "b", 4),
                     get({9, 10}, row("a", 3))}),
            Explained::no);
}

TEST(Linearizable, GivesAnUnansweredWriteOneVersion) {
  EXPECT_EQ(verdict({put({1, {}}, "a", 0), get({5, 6}, row("a", 3)), get({7, 8}, row("a", 4))}),
            Explained::no);
  // The version of another write is not its own.
  EXPECT_EQ(verdict({put({1, {}}, "a", 0), get({5, 6}, row("a", 3)), put({7, 8}, "b", 3)}), Explained::no);
}

TEST(Linearizable, RefusesTwoWritesOfOneVersion) {
  EXPECT_EQ(verdict({put({1, 2}, "a", 7), put({3, 4}, "b", 7)}), Explained::no);
}

TEST(Linearizable, HoldsAWriteToTheVersionItExpects) {
  const KvCall first = put({1, 2}, "a", 7);
  EXPECT_EQ(verdict({first, put_expecting({3, 4}, "b", 7, {true, row("b", 8)})}), Explained::yes);
  EXPECT_EQ(verdict({first, put_expecting({3, 4}, "b", 6, {true, row("b", 8)})}), Explained::no);
  EXPECT_EQ(verdict({first, put_expecting({3, 4}, "b", 6, {false, row("a", 7)})}), Explained::yes);
  EXPECT_EQ(verdict({first, put_expecting({3, 4}, "b", 7, {false, row("a", 7)})}), Explained::no);
  EXPECT_EQ(verdict({first, put_expecting({3, 4}, "b", 0, {true, row("b", 8)})}), Explained::no);
}

TEST(Linearizable, LetsOneOfTwoWritesWinThatExpectTheSameVersion) {
  const KvCall first = put({1, 2}, "a", 7);
  const KvCall winner = put_expecting({3, 9}, "b", 7, {true, row("b", 8)});
  EXPECT_EQ(verdict({first, winner, put_expecting({4, 10}, "c", 7, {false, row("b", 8)})}), Explained::yes);
  EXPECT_EQ(verdict({first, winner, put_expecting({4, 10}, "c", 7, {true, row("c", 9)})}), Explained::no);
}

TEST(Linearizable, LetsAnUnansweredWriteHappenOnlyOnTheVersionItExpects) {
  KvCall late = put_expecting({3, {}}, "b", 6, {});
  EXPECT_EQ(verdict({put({1, 2}, "a", 7), late, get({5, 6}, row("b", 8))}), Explained::no);
  late.expect = 7;
  EXPECT_EQ(verdict({put({1, 2}, "a", 7), late, get({5, 6}, row("b", 8))}), Explained::yes);
}

TEST(Linearizable, GivesAKeyToOneOfThoseThatPutItIfAbsent) {
  KvCall won = put({1, 5}, "a", 7), lost = put({2, 6}, "b", 0);
  won.kind = lost.kind = KvKind::put_if_absent;
  lost.answer = {false, row("a", 7)};
  EXPECT_EQ(verdict({won, lost}), Explained::yes);
  lost.answer = {true, row("b", 8)};
  EXPECT_EQ(verdict({won, lost}), Explained::no);
  lost.answer = {false, kNone};
  EXPECT_EQ(verdict({won, lost}), Explained::no);
}

TEST(Linearizable, DeletesWhatIsThere) {
  const KvCall first = put({1, 2}, "a", 7);
  EXPECT_EQ(verdict({first, del({3, 4}, {true, row("a", 7)}), get({5, 6}, kNone)}), Explained::yes);
  EXPECT_EQ(verdict({first, del({3, 4}, {true, {}}), get({5, 6}, row("a", 7))}), Explained::no);
  EXPECT_EQ(verdict({first, del({3, 4}, {false, kNone})}), Explained::no);
  EXPECT_EQ(verdict({del({3, 4}, {false, kNone})}), Explained::yes);
  EXPECT_EQ(verdict({del({3, 4}, {true, {}})}), Explained::no);
  KvCall other = del({3, 4}, {true, {}});
  other.expect = 6;
  EXPECT_EQ(verdict({first, other}), Explained::no);
  other.expect = 7;
  EXPECT_EQ(verdict({first, other}), Explained::yes);
  // Expecting nothing of a key without a row deletes nothing, and is done.
  other.expect = 0;
  EXPECT_EQ(verdict({other}), Explained::yes);
}

TEST(Linearizable, CountsEveryIncrementOnce) {
  const KvCall one = incr({1, 9}, 2, {true, row("2", 7)});
  EXPECT_EQ(verdict({one, incr({2, 8}, 3, {true, row("5", 8)})}), Explained::yes);
  EXPECT_EQ(verdict({one, incr({2, 8}, 3, {true, row("3", 8)})}), Explained::no);
  EXPECT_EQ(verdict({one, incr({2, {}}, 3, {}), get({10, 11}, row("2", 7)), get({12, 13}, row("5", 8))}),
            Explained::yes);
  EXPECT_EQ(verdict({one, incr({2, {}}, 3, {}), get({10, 11}, row("8", 8))}), Explained::no);
}

TEST(Linearizable, RefusesAnIncrementOfWhatIsNoNumber) {
  const KvCall text = put({1, 2}, "a", 7);
  EXPECT_EQ(verdict({text, incr({3, 4}, 1, {false, row("a", 7)})}), Explained::yes);
  EXPECT_EQ(verdict({text, incr({3, 4}, 1, {true, row("1", 8)})}), Explained::no);
  EXPECT_EQ(verdict({put({1, 2}, "4", 7), incr({3, 4}, 1, {false, row("4", 7)})}), Explained::no);
}

TEST(Linearizable, LetsARowGoWithinItsLifetimesEnd) {
  KvCall leased = put({1, 2}, "a", 7);
  leased.lifetime = KvLifetime{101, 102};
  EXPECT_EQ(verdict({leased, get({99, 100}, kNone)}), Explained::no);
  EXPECT_EQ(verdict({leased, get({99, 100}, row("a", 7))}), Explained::yes);
  EXPECT_EQ(verdict({leased, get({99, 101}, kNone)}), Explained::yes);
  EXPECT_EQ(verdict({leased, get({102, 104}, row("a", 7))}), Explained::yes);
  EXPECT_EQ(verdict({leased, get({103, 104}, row("a", 7))}), Explained::no);
  EXPECT_EQ(verdict({leased, get({101, 101}, kNone), get({102, 102}, row("a", 7))}), Explained::no);
}

TEST(Linearizable, LetsALifetimeEndOnlyTheRowItBelongsTo) {
  KvCall leased = put({1, 2}, "4", 7);
  leased.lifetime = KvLifetime{101, 102};
  EXPECT_EQ(verdict({leased, put({50, 51}, "b", 8), get({200, 201}, row("b", 8))}), Explained::yes);
  EXPECT_EQ(verdict({leased, put({50, 51}, "b", 8), get({200, 201}, kNone)}), Explained::no);
  // An increment keeps the row's lifetime, whatever its own would be.
  KvCall more = incr({50, 51}, 1, {true, row("5", 8)});
  more.lifetime = KvLifetime{1000, 1001};
  EXPECT_EQ(verdict({leased, more, get({200, 201}, kNone)}), Explained::yes);
  EXPECT_EQ(verdict({leased, more, get({200, 201}, row("5", 8))}), Explained::no);
}

TEST(Linearizable, AsksNothingOfTheLifetimeOfAWriteThatNeverHappened) {
  KvCall leased = put({1, {}}, "a", 0);
  leased.lifetime = KvLifetime{101, INT64_MAX};
  EXPECT_EQ(verdict({leased, get({200, 201}, kNone)}), Explained::yes);
  EXPECT_EQ(verdict({leased, get({200, 201}, row("a", 3)), get({300, 301}, kNone)}), Explained::yes);
}

TEST(Linearizable, GivesUpAfterItsSteps) {
  const History history{put({1, 9}, "a", 7), put({1, 9}, "b", 8), get({10, 11}, row("c", 9))};
  EXPECT_EQ(check_linearizable(history, 1).explained, Explained::undecided);
  EXPECT_EQ(check_linearizable(history, 100).explained, Explained::no);
}

// A register that answers rightly, asked by several clients at once; some answers are lost on the way.
History random_history(std::uint32_t seed, int calls) {
  std::mt19937 random(seed);
  const auto below = [&](int end) { return static_cast<int>(random() % static_cast<unsigned>(end)); };
  KvRow now;
  std::uint64_t next_version = 1;
  std::int64_t clients[4] = {1, 1, 1, 1};
  History history;
  for (int i = 0; i < calls; ++i) {
    std::int64_t& free = *std::ranges::min_element(clients);
    // It takes effect now: before any later one, and between its call and its answer.
    const std::int64_t effect = (i + 1) * 10;
    KvCall call;
    call.called = std::min(std::max(free, effect - below(40)), effect);
    call.returned = effect + below(40);
    free = *call.returned + 1;
    const int kind = below(5);
    const bool there = now.version != 0;
    const std::string value = fmt::format("{}", below(50));
    bool applied = true;
    call.kind = static_cast<KvKind>(kind);
    if (call.kind == KvKind::put) call.value = value;
    if (call.kind == KvKind::put_if_absent) call.value = value;
    if (call.kind == KvKind::put && below(2) == 0) call.expect = below(2) == 0 ? now.version : 999'999u;
    if (call.kind == KvKind::put && call.expect) applied = *call.expect == now.version;
    if (call.kind == KvKind::put_if_absent) applied = !there;
    if (call.kind == KvKind::del) applied = there;
    if (call.kind == KvKind::incr) call.delta = below(9);
    if (call.kind == KvKind::incr)
      call.value = fmt::format("{}", (there ? std::stoi(now.value) : 0) + call.delta);
    if (call.kind == KvKind::del && applied) {
      call.answer = {true, now};
      now = {};
    } else if (call.kind != KvKind::get && applied) {
      now = {call.value, next_version++};
      call.answer = {true, now};
    } else {
      call.answer = {false, now};
    }
    if (call.kind == KvKind::incr) call.value.clear();
    if (below(12) == 0) {
      call.returned.reset();
      call.answer = {};
    }
    history.push_back(std::move(call));
  }
  return history;
}

TEST(Linearizable, ExplainsWhatAnOrderedRegisterAnswered) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    const auto found = check_linearizable(random_history(seed, 60));
    ASSERT_EQ(found.explained, Explained::yes) << "seed " << seed << "\n" << found.text;
  }
}

// The version of one read is changed to one that nobody was given.
TEST(Linearizable, RefusesTheSameHistoriesWithOneAnswerChanged) {
  int changed = 0;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    History history = random_history(seed, 60);
    // A lost answer could be the write that the changed one saw: those histories say nothing.
    for (KvCall& call : history)
      if (!call.returned) call.kind = KvKind::get;
    if (check_linearizable(history).explained != Explained::yes) continue;
    const auto read = std::ranges::find_if(history, [](const KvCall& call) {
      return call.kind == KvKind::get && call.returned && call.answer.row->version != 0;
    });
    if (read == history.end()) continue;
    read->answer.row->version += 1'000'000;
    ++changed;
    const auto found = check_linearizable(history);
    ASSERT_EQ(found.explained, Explained::no) << "seed " << seed;
    EXPECT_NE(found.text.find("not explained"), std::string::npos);
  }
  EXPECT_GT(changed, 5);
}

}  // namespace
}  // namespace queen::sim
