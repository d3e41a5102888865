// Counters and checks (api-state.md KV-6 to KV-8, KV-12, KV-17), and calls of many operations against a map.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "machine/tests/harness.h"

namespace queen::machine {
namespace {

using namespace testing;

KvOp op(KvKind kind, const std::string& key, const std::string& value = "") {
  KvOp out;
  out.kind = kind;
  out.ns = "ns";
  out.key = key;
  out.value = value;
  return out;
}
KvOp incr(const std::string& key, const std::string& delta, const std::string& min = "",
          const std::string& max = "") {
  KvOp out = op(KvKind::incr, key);
  out.delta = delta;
  out.min = min;
  out.max = max;
  return out;
}
KvOp check(const std::string& key, std::uint64_t version) {
  KvOp out = op(KvKind::check, key);
  out.expect = version;
  return out;
}
KvOp lasting(KvOp from, std::int64_t seconds) {
  from.ttl_seconds = seconds;
  return from;
}
KvOp required(KvOp from) {
  from.required = true;
  return from;
}

class KvIncr : public ::testing::Test {
 protected:
  KvOutcome run(std::vector<KvOp> ops) { return node.one<KvOutcome>(KvCommand{std::move(ops)}); }
  KvOpOutcome run(KvOp one) { return run(std::vector<KvOp>{std::move(one)}).ops.at(0); }
  std::string shown(KvOp one) {
    const auto out = run(std::move(one));
    const std::string row = out.row ? out.row->value + "@" + (out.row->version > 0 ? "v" : "0") : "-";
    return (out.applied ? "applied " : out.reason + " ") + row;
  }
  Node node;
};

TEST_F(KvIncr, CountsFromZeroAndRendersOneWay) {
  EXPECT_EQ(shown(incr("a", "1")), "applied 1@v");
  EXPECT_EQ(shown(incr("a", "2.50")), "applied 3.5@v");
  EXPECT_EQ(shown(incr("a", "-3.5")), "applied 0@v");
  EXPECT_EQ(shown(incr("b", "-0")), "applied 0@v");
  run(op(KvKind::put, "c", "0.1"));
  EXPECT_EQ(shown(incr("c", "0.2")), "applied 0.3@v");
  run(op(KvKind::put, "d", "1e3"));
  EXPECT_EQ(shown(incr("d", "0")), "applied 1000@v");
}

TEST_F(KvIncr, TakesItsExpiryOnlyWhenItCreates) {
  const auto first = run(lasting(incr("a", "1"), 10));
  EXPECT_EQ(first.row->expires_at, node.entries.back().now_us + 10 * kSecond);
  node.now += kSecond;
  EXPECT_EQ(run(lasting(incr("a", "1"), 500)).row->expires_at, first.row->expires_at);
  EXPECT_EQ(run(incr("a", "1")).row->expires_at, first.row->expires_at);
  run(op(KvKind::put, "b", "5"));
  EXPECT_FALSE(run(lasting(incr("b", "1"), 5)).row->expires_at);
  node.now = *first.row->expires_at;
  const auto fresh = run(lasting(incr("a", "1"), 10));
  EXPECT_EQ(fresh.row->value, "1");
  EXPECT_EQ(fresh.row->expires_at, node.entries.back().now_us + 10 * kSecond);
  EXPECT_EQ(node.store.rows(store::Keyspace::kv_expiry), 1U);
}

TEST_F(KvIncr, AnExpiredRowOfAnyTypeCountsAsZero) {
  run(lasting(op(KvKind::put, "a", R"({"x":1})"), 1));
  EXPECT_EQ(shown(incr("a", "1")), R"(type {"x":1}@v)");
  node.now += kSecond;
  EXPECT_EQ(shown(incr("a", "1")), "applied 1@v");
}

TEST_F(KvIncr, StaysWithinInclusiveBounds) {
  EXPECT_EQ(shown(incr("a", "1", "", "2")), "applied 1@v");
  EXPECT_EQ(shown(incr("a", "1", "", "2")), "applied 2@v");
  EXPECT_EQ(shown(incr("a", "1", "", "2")), "limit 2@v");
  EXPECT_EQ(shown(incr("a", "-2", "0")), "applied 0@v");
  EXPECT_EQ(shown(incr("a", "-0.1", "0")), "limit 0@v");
  EXPECT_EQ(shown(incr("b", "10", "", "5")), "limit 0@0");
  EXPECT_EQ(node.store.rows(store::Keyspace::kv), 1U);
  EXPECT_EQ(shown(incr("c", "1", "5", "3")), "limit 0@0");
}

TEST_F(KvIncr, ASumThatIsNoNumberIsALimit) {
  run(op(KvKind::put, "a", "1e308"));
  EXPECT_EQ(shown(incr("a", "1e308")), "limit 1e308@v");
}

TEST_F(KvIncr, OnlyNumbersCount) {
  for (const char* value : {"\"1\"", "null", "true", "[1]", "{}", "1e400"}) {
    run(op(KvKind::put, "a", value));
    EXPECT_EQ(shown(incr("a", "1")), "type " + std::string(value) + "@v");
  }
}

TEST_F(KvIncr, ALostRequiredIncrementAbortsTheCall) {
  const auto out = run({op(KvKind::put, "a", "1"), required(incr("b", "10", "", "5"))});
  EXPECT_EQ(out.failed_index, 1U);
  EXPECT_EQ(out.failed_reason, "limit");
  EXPECT_EQ(out.failed_row->value, "0");
  EXPECT_EQ(out.failed_row->version, 0U);
  EXPECT_EQ(node.next_index, 1U);
}

TEST_F(KvIncr, ChecksHoldOrTellWhatIsThere) {
  const auto put = run(op(KvKind::put, "a", "7"));
  const auto before = node.next_index;
  EXPECT_TRUE(run(check("a", put.row->version)).applied);
  EXPECT_TRUE(run(check("none", 0)).applied);
  EXPECT_EQ(shown(check("a", put.row->version + 1)), "version 7@v");
  EXPECT_EQ(shown(check("a", 0)), "exists 7@v");
  EXPECT_EQ(shown(check("none", 5)), "absent -");
  EXPECT_EQ(node.next_index, before);
  EXPECT_EQ(run(op(KvKind::get, "a")).row->version, put.row->version);
}

TEST_F(KvIncr, AnExpiredRowIsAbsentForACheck) {
  const auto put = run(lasting(op(KvKind::put, "a", "7"), 1));
  node.now += kSecond;
  EXPECT_TRUE(run(check("a", 0)).applied);
  EXPECT_EQ(run(check("a", put.row->version)).reason, "absent");
}

TEST_F(KvIncr, ChecksBesideReadsTakeAPositionAndAloneTakeNone) {
  run({check("a", 0), check("b", 0)});
  EXPECT_EQ(node.next_index, 1U);
  run({check("a", 0), op(KvKind::get, "b")});
  ASSERT_EQ(node.next_index, 2U);
  EXPECT_TRUE(std::holds_alternative<Noop>(node.entries.back().effects.at(0)));
}

TEST_F(KvIncr, ALostRequiredCheckKeepsItsCallFromWriting) {
  const auto put = run(op(KvKind::put, "lock", "1"));
  const std::uint64_t version = put.row->version;
  EXPECT_FALSE(run({required(check("lock", version)), op(KvKind::put, "b", "1")}).failed_index);
  run(op(KvKind::put, "lock", "2"));
  const auto before = node.next_index;
  const auto out = run({required(check("lock", version)), op(KvKind::put, "b", "2")});
  EXPECT_EQ(out.failed_index, 0U);
  EXPECT_EQ(out.failed_reason, "version");
  EXPECT_EQ(out.failed_row->value, "2");
  EXPECT_EQ(node.next_index, before);
}

// KV-10.
TEST_F(KvIncr, AnOverwrittenRowKeepsItsCreationTimeAndAFreshOneHasItsOwn) {
  const auto created = [&] {
    const auto bytes = node.store.get(store::Keyspace::kv, store::kv_key(kTenant, "ns", "a"));
    return store::KvRow::decode(*bytes)->created;
  };
  run(lasting(op(KvKind::put, "a", "1"), 100));
  const std::int64_t first = created();
  node.now += kSecond;
  run(lasting(op(KvKind::put, "a", "2"), 1));
  EXPECT_EQ(created(), first);
  run(incr("a", "1"));
  EXPECT_EQ(created(), first);
  node.now += 2 * kSecond;  // over an expired row
  run(incr("a", "1"));
  EXPECT_GT(created(), first);
  const std::int64_t second = created();
  run(op(KvKind::del, "a"));
  node.now += kSecond;
  run(op(KvKind::put, "a", "1"));
  EXPECT_GT(created(), second);
}

// Calls of several operations with time passing, against a map: what KV-1 to KV-14 say of single keys.
class Model {
 public:
  struct Row {
    std::int64_t number = 0;
    std::uint64_t version = 0;
    std::optional<std::int64_t> expires;
  };

  // Why the operation does not apply; empty when it does, and then `rows` are as after it.
  std::string apply(const KvOp& op, std::int64_t now, std::uint64_t version) {
    const auto at = rows.find(op.key);
    const bool there = at != rows.end() && (!at->second.expires || *at->second.expires > now);
    if (op.expect || op.kind == KvKind::put_if_absent) {
      const std::uint64_t expect = op.expect.value_or(0);
      if (expect == 0 && there) return "exists";
      if (expect != 0 && !there) return "absent";
      if (expect != 0 && at->second.version != expect) return "version";
    }
    Row next{0, version, std::nullopt};
    if (op.ttl_seconds) next.expires = now + *op.ttl_seconds * kSecond;
    if (op.kind == KvKind::incr) {
      next.number = (there ? at->second.number : 0) + std::stoll(op.delta);
      if (!op.max.empty() && next.number > std::stoll(op.max)) return "limit";
      if (there) next.expires = at->second.expires;
    } else if (op.kind != KvKind::check && op.kind != KvKind::del) {
      next.number = std::stoll(op.value);
    }
    if (op.kind == KvKind::del) {
      if (!there && !op.expect) return "absent";
      rows.erase(op.key);
    } else if (op.kind != KvKind::check) {
      rows[op.key] = next;
    }
    return "";
  }
  std::optional<Row> live(const std::string& key, std::int64_t now) const {
    const auto at = rows.find(key);
    if (at == rows.end() || (at->second.expires && *at->second.expires <= now)) return std::nullopt;
    return at->second;
  }

  std::map<std::string, Row> rows;
};

KvOp random_op(const std::string& key, const Model& model, int number) {
  KvOp out = op(*rc::gen::element(KvKind::get, KvKind::put, KvKind::put_if_absent, KvKind::del, KvKind::incr,
                                  KvKind::check),
                key, std::to_string(number));
  out.delta = std::to_string(*rc::gen::inRange(-3, 4));
  if (*rc::gen::inRange(0, 2) == 0) out.max = "4";
  if (*rc::gen::inRange(0, 2) == 0) out.ttl_seconds = *rc::gen::inRange(1, 5);
  const auto row = model.rows.find(key);
  const std::uint64_t version = row == model.rows.end() ? 0 : row->second.version;
  const bool may_expect = out.kind == KvKind::put || out.kind == KvKind::del;
  if (out.kind == KvKind::check || (may_expect && *rc::gen::inRange(0, 3) == 0))
    out.expect = *rc::gen::element<std::uint64_t>(0, version, 7);
  out.required = out.kind != KvKind::get && *rc::gen::inRange(0, 6) == 0;
  return out;
}

RC_GTEST_PROP(KvCalls, AreWholeInOrderOfKeysAndVersionsAscend, ()) {
  Node node;
  Model model;
  std::uint64_t highest = 0;
  const int steps = *rc::gen::inRange(1, 60);
  for (int step = 0; step < steps; ++step) {
    node.now += *rc::gen::inRange<std::int64_t>(1, 2 * kSecond);
    std::vector<KvOp> ops;
    for (const char* key : {"c", "a", "b"})
      if (*rc::gen::inRange(0, 2) == 0) ops.push_back(random_op(key, model, step));
    KvOp all = op(KvKind::get_many, "");
    all.keys = {"a", "b", "c"};
    ops.push_back(all);
    const auto out = node.one<KvOutcome>(KvCommand{ops});
    Model after = model;
    std::optional<std::uint32_t> lost;
    for (const char* key : {"a", "b", "c"}) {
      for (std::size_t i = 0; i + 1 < ops.size() && !lost; ++i) {
        if (ops[i].key != key) continue;
        const bool write = ops[i].kind != KvKind::get;
        const auto got = out.failed_index || !write ? KvOpOutcome() : out.ops.at(i);
        const std::uint64_t version = got.row ? got.row->version : 0;
        const std::string reason = write ? after.apply(ops[i], node.now, version) : "";
        if (!reason.empty() && ops[i].required) lost = static_cast<std::uint32_t>(i);
        if (out.failed_index) continue;
        if (write) RC_ASSERT(got.applied == reason.empty() && got.reason == reason);
        const bool stored =
            write && got.applied && ops[i].kind != KvKind::del && ops[i].kind != KvKind::check;
        if (stored) RC_ASSERT(version > highest);
        if (stored) highest = version;
      }
    }
    RC_ASSERT(out.failed_index == lost);
    if (lost) continue;
    model = std::move(after);
    std::size_t live = 0;
    for (const KvFound& row : out.ops.back().rows) {
      const auto expected = model.live(row.key, node.now);
      RC_ASSERT(expected && row.value == std::to_string(expected->number) &&
                row.version == expected->version);
      RC_ASSERT(row.expires_at == expected->expires);
      ++live;
    }
    RC_ASSERT(live + out.ops.back().missing.size() == 3U);
  }
}

}  // namespace
}  // namespace queen::machine
