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
KvOp expecting(KvOp from, std::uint64_t version) {
  from.expect = version;
  return from;
}
KvOp required(KvOp from) {
  from.required = true;
  return from;
}

class Kv : public ::testing::Test {
 protected:
  KvOutcome run(std::vector<KvOp> ops) { return node.one<KvOutcome>(KvCommand{std::move(ops)}); }
  KvOpOutcome run(KvOp one) { return run(std::vector<KvOp>{std::move(one)}).ops.at(0); }
  Node node;
};

TEST_F(Kv, PutGetDeleteRoundTrip) {
  const auto put = run(op(KvKind::put, "a", "42.00"));
  EXPECT_TRUE(put.applied);
  const auto got = run(op(KvKind::get, "a"));
  EXPECT_EQ(got.row->value, "42.00");
  EXPECT_EQ(got.row->version, put.row->version);
  EXPECT_EQ(run(op(KvKind::del, "a")).row->value, "42.00");
  EXPECT_FALSE(run(op(KvKind::get, "a")).row);
  const auto again = run(op(KvKind::del, "a"));
  EXPECT_FALSE(again.applied);
  EXPECT_EQ(again.reason, "absent");
}

TEST_F(Kv, ExpectationsDecide) {
  EXPECT_EQ(run(expecting(op(KvKind::put, "a", "1"), 90'101)).reason, "absent");
  const auto first = run(expecting(op(KvKind::put, "a", "1"), 0));
  EXPECT_TRUE(first.applied);
  const auto lost = run(op(KvKind::put_if_absent, "a", "2"));
  EXPECT_EQ(lost.reason, "exists");
  EXPECT_EQ(lost.row->value, "1");
  EXPECT_TRUE(run(expecting(op(KvKind::put, "a", "2"), first.row->version)).applied);
  EXPECT_EQ(run(expecting(op(KvKind::put, "a", "3"), first.row->version)).reason, "version");
  EXPECT_EQ(run(expecting(op(KvKind::del, "a"), 0)).reason, "exists");
  EXPECT_TRUE(run(expecting(op(KvKind::del, "b"), 0)).applied);
}

TEST_F(Kv, ExpiredRowsAreGoneForReadsPreconditionsAndSweep) {
  KvOp put = op(KvKind::put, "a", "1");
  put.ttl_seconds = 1;
  const auto first = run(put);
  EXPECT_EQ(first.row->expires_at, node.entries.back().now_us + kSecond);
  node.now = *first.row->expires_at;
  EXPECT_FALSE(run(op(KvKind::get, "a")).row);
  EXPECT_EQ(node.store.rows(store::Keyspace::kv), 1U);
  const auto won = run(op(KvKind::put_if_absent, "a", "2"));
  EXPECT_TRUE(won.applied);
  EXPECT_GT(won.row->version, first.row->version);
  EXPECT_EQ(node.store.rows(store::Keyspace::kv_expiry), 0U);
  run(put);
  put.key = "b";
  run(put);
  node.now += 10 * kSecond;
  std::vector<Command> sweep;
  sweep.push_back(node.command(KvSweepCommand{1}));
  node.run(sweep);
  EXPECT_EQ(node.store.rows(store::Keyspace::kv), 1U);
  sweep[0].request_id = numbered_uuid(node.next_uuid++);
  node.run(sweep);
  EXPECT_EQ(node.store.rows(store::Keyspace::kv), 0U);
  EXPECT_EQ(node.store.rows(store::Keyspace::kv_expiry), 0U);
}

TEST_F(Kv, DeleteOfAnExpiredRowRemovesItAndSaysAbsent) {
  KvOp put = op(KvKind::put, "a", "1");
  put.ttl_seconds = 1;
  run(put);
  node.now += 2 * kSecond;
  EXPECT_EQ(run(op(KvKind::del, "a")).reason, "absent");
  EXPECT_EQ(node.store.rows(store::Keyspace::kv), 0U);
}

TEST_F(Kv, OneLostRequiredOpWritesNothing) {
  run(op(KvKind::put, "b", "old"));
  const auto before = node.next_index;
  const auto out = run({op(KvKind::put, "a", "1"), required(op(KvKind::put_if_absent, "b", "2"))});
  EXPECT_EQ(out.failed_index, 1U);
  EXPECT_EQ(out.failed_reason, "exists");
  EXPECT_EQ(out.failed_row->value, "old");
  EXPECT_EQ(node.next_index, before);
  EXPECT_FALSE(run(op(KvKind::get, "a")).row);
}

TEST_F(Kv, GetSeesWritesBeforeItInInputAndPagesSeeAll) {
  run(op(KvKind::put, "a", "old"));
  KvOp many = op(KvKind::get_many, "");
  many.keys = {"z", "b", "a"};
  KvOp prefix = op(KvKind::get_prefix, "");
  prefix.prefix = "a";
  const auto out = run({many, prefix, op(KvKind::get, "a"), op(KvKind::put, "a", "new"), op(KvKind::get, "a"),
                        op(KvKind::put, "b", "1")});
  EXPECT_EQ(out.ops[2].row->value, "old");
  EXPECT_EQ(out.ops[4].row->value, "new");
  ASSERT_EQ(out.ops[0].rows.size(), 2U);
  EXPECT_EQ(out.ops[0].rows[0].value, "new");
  EXPECT_EQ(out.ops[0].missing, std::vector<std::string>{"z"});
  EXPECT_EQ(out.ops[1].rows.at(0).value, "new");
  EXPECT_EQ(node.entries.back().commands.size(), 1U);
}

TEST_F(Kv, LostOrReadOnlyCallsWriteNothing) {
  run(op(KvKind::put, "a", "1"));
  const auto before = node.next_index;
  run(op(KvKind::put_if_absent, "a", "2"));
  run(op(KvKind::get, "a"));
  EXPECT_EQ(node.next_index, before);
  run({op(KvKind::put_if_absent, "a", "2"),
       op(KvKind::get, "a")});  // reads beside a lost write get a position
  EXPECT_EQ(node.next_index, before + 1);
  EXPECT_TRUE(std::holds_alternative<Noop>(node.entries.back().effects.at(0)));
}

TEST_F(Kv, PrefixPagesWalkEveryKeyOnce) {
  for (const char* key : {"scan/1", "scan/2", "scan/3", "scan/4", "scan/5", "scanX/1"})
    run(op(KvKind::put, key, "v"));
  KvOp page = op(KvKind::get_prefix, "");
  page.prefix = "scan/";
  page.limit = 2;
  std::vector<std::string> seen;
  for (int i = 0; i < 3; ++i) {
    const auto out = run(page);
    for (const KvFound& row : out.rows) seen.push_back(row.key);
    EXPECT_EQ(out.truncated, i < 2);
    EXPECT_EQ(out.next_after.has_value(), i < 2);
    page.after = out.next_after.value_or("");
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"scan/1", "scan/2", "scan/3", "scan/4", "scan/5"}));
  page.keys_only = true;
  EXPECT_EQ(run(page).rows.at(0).value, "");
}

TEST_F(Kv, ReadsStopAtFourMebibytes) {
  const std::string value(1 << 20, 'v');
  for (const char* key : {"a", "b", "c", "d", "e", "f"}) run(op(KvKind::put, key, value));
  KvOp many = op(KvKind::get_many, "");
  many.keys = {"a", "b", "c", "d", "e", "f", "none"};
  const auto out = run({many, op(KvKind::get, "f")});
  EXPECT_TRUE(out.ops[1].row);
  EXPECT_EQ(out.ops[0].rows.size(), 3U);  // the single get spent the first
  EXPECT_TRUE(out.ops[0].truncated);
  EXPECT_EQ(out.ops[0].missing, std::vector<std::string>{"none"});
}

TEST_F(Kv, TenantsAndNamespacesAreApart) {
  run(op(KvKind::put, "a", "1"));
  KvOp other = op(KvKind::get, "a");
  other.ns = "ns2";
  EXPECT_FALSE(run(other).row);
  EXPECT_FALSE(node.one<KvOutcome>(KvCommand{{op(KvKind::get, "a")}}, "00000000-0000-0000-0000-000000000002")
                   .ops[0]
                   .row);
}

// Random single-op calls with time passing, against a map.
RC_GTEST_PROP(KvModel, BehavesLikeAMapWithVersionsAndExpiry, ()) {
  struct Row {
    std::string value;
    std::uint64_t version;
    std::optional<std::int64_t> expires;
  };
  Node node;
  std::map<std::string, Row> model;
  std::uint64_t highest = 0;
  const int steps = *rc::gen::inRange(1, 80);
  for (int step = 0; step < steps; ++step) {
    node.now += *rc::gen::inRange<std::int64_t>(1, 2 * kSecond);
    KvOp each = op(*rc::gen::element(KvKind::get, KvKind::put, KvKind::put_if_absent, KvKind::del),
                   *rc::gen::element<std::string>("a", "b", "c"), std::to_string(step));
    if (*rc::gen::inRange(0, 2) == 0) each.ttl_seconds = *rc::gen::inRange(1, 5);
    const auto at = model.find(each.key);
    if (at != model.end() && at->second.expires && *at->second.expires <= node.now) model.erase(at);
    const auto row = model.find(each.key);
    const std::uint64_t version = row == model.end() ? 0 : row->second.version;
    if (each.kind != KvKind::get && *rc::gen::inRange(0, 3) == 0)
      each.expect = *rc::gen::element<std::uint64_t>(0, version, 7);
    if (each.kind == KvKind::put_if_absent) each.expect.reset();
    const auto expect = each.kind == KvKind::put_if_absent ? std::optional<std::uint64_t>(0) : each.expect;
    const bool wins = expect ? *expect == version : each.kind != KvKind::del || version != 0;
    const auto out = node.one<KvOutcome>(KvCommand{{each}}).ops.at(0);
    if (each.kind == KvKind::get) {
      RC_ASSERT(out.row.has_value() == (version != 0));
      if (version != 0) RC_ASSERT(out.row->value == row->second.value && out.row->version == version);
      continue;
    }
    RC_ASSERT(out.applied == wins);
    if (!wins) {
      RC_ASSERT(out.row.has_value() == (version != 0));
      continue;
    }
    if (each.kind == KvKind::del) {
      model.erase(each.key);
      continue;
    }
    RC_ASSERT(out.row->version > highest);
    highest = out.row->version;
    model[each.key] = {each.value, out.row->version, out.row->expires_at};
  }
}

class Configure : public Kv {};

TEST_F(Configure, MergeKeepsReplaceResetsNullRestores) {
  const auto made = node.configure({{"leaseTime", 30}, {"retryLimit", 5}}).row;
  EXPECT_EQ(made.lease_time, 30);
  EXPECT_EQ(made.retention_sink_hold_max_seconds, 604'800);
  const auto merged = node.configure({{"retryLimit", std::nullopt}}).row;
  EXPECT_EQ(merged.lease_time, 30);
  EXPECT_EQ(merged.retry_limit, 3);
  EXPECT_EQ(merged.uuid, made.uuid);
  ConfigureCommand replace;
  replace.queue = "q";
  replace.replace = true;
  const auto replaced = node.one<ConfigureOutcome>(std::move(replace)).row;
  EXPECT_EQ(replaced.lease_time, 300);
  EXPECT_EQ(replaced.uuid, made.uuid);
  EXPECT_EQ(replaced.created_at, made.created_at);
}

TEST_F(Configure, RepeatingItWritesNothing) {
  node.configure({{"leaseTime", 30}});
  const auto before = node.next_index;
  node.configure({{"leaseTime", 30}, {"noSuchOption", 1}});
  EXPECT_EQ(node.next_index, before);
}

struct Refused {
  std::string name;
  std::map<std::string, std::optional<std::int64_t>> integers;
  std::map<std::string, std::optional<std::string>> texts;
};
class ConfigureRefuses : public ::testing::TestWithParam<Refused> {};
TEST_P(ConfigureRefuses, AndMakesNothing) {
  Node node;
  ConfigureCommand configure;
  configure.queue = "q";
  configure.integers = GetParam().integers;
  configure.texts = GetParam().texts;
  std::vector<Command> commands;
  commands.push_back(node.command(std::move(configure)));
  EXPECT_EQ(node.run(commands)[0].code, "bad_request");
  EXPECT_EQ(node.next_index, 1U);
}
INSTANTIATE_TEST_SUITE_P(
    Bounds, ConfigureRefuses,
    ::testing::Values(Refused{"over_32_bits", {{"leaseTime", 1LL << 31}}, {}},
                      Refused{"hold_too_short", {{"retentionSinkHoldMaxSeconds", 59}}, {}},
                      Refused{"hold_too_long", {{"retentionSinkHoldMaxSeconds", 31'536'001}}, {}},
                      Refused{"sink_name", {}, {{"retentionSinkHold", "a/b"}}},
                      Refused{"long_sink_name", {}, {{"retentionSinkHold", std::string(65, 'a')}}}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace queen::machine
