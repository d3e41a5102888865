#include "store/keys.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <tuple>

#include "base/text.h"
#include "store/tests/golden.h"

namespace queen::store {
namespace {

// Names over a tiny alphabet, so that zeros, prefixes and equal names are common.
rc::Gen<std::string> names() {
  return rc::gen::container<std::string>(rc::gen::element('\0', '\1', 'a', 'b', '\xFE', '\xFF'));
}
rc::Gen<Uuid> uuids() {
  return rc::gen::map(rc::gen::container<std::vector<std::uint8_t>>(16, rc::gen::arbitrary<std::uint8_t>()),
                      [](const std::vector<std::uint8_t>& bytes) {
                        Uuid out;
                        std::copy(bytes.begin(), bytes.end(), out.bytes.begin());
                        return out;
                      });
}

TEST(Keys, EncodeExactlyAsGolden) {
  const std::string zero("a\0b", 3);
  Uuid id;
  for (std::size_t i = 0; i < 16; ++i) id.bytes[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(hex_lower(queue_key("t", "q")), golden("key-queue"));
  EXPECT_EQ(hex_lower(queue_key("t", zero)), golden("key-queue-zero"));
  EXPECT_EQ(hex_lower(pending_key("t", "q", "g", Pid{258})), golden("key-pending"));
  EXPECT_EQ(hex_lower(dlq_by_pos_key(Pid{7}, "g", -1)), golden("key-dlq-by-pos"));
  EXPECT_EQ(hex_lower(kv_key("t", "n", zero)), golden("key-kv"));
  EXPECT_EQ(hex_lower(counter_key(CounterScope::queue, counter_id("t", "q"), Counter::consumed)),
            golden("key-counter"));
  EXPECT_EQ(hex_lower(timer_due_key(1'000'000, "t", "q", "k")), golden("key-timer-due"));
  EXPECT_EQ(hex_lower(trace_key("t", std::nullopt, "x", 3)), golden("key-trace"));
  EXPECT_EQ(hex_lower(trace_name_key("t", "n", 258, id)), golden("key-trace-name"));
  EXPECT_EQ(hex_lower(trace_expiry_key(258, id)), golden("key-trace-expiry"));
  EXPECT_EQ(hex_lower(dlq_key("t", "q", id)), golden("key-dlq"));
  EXPECT_EQ(hex_lower(txns_key(Pid{7}, 258)), golden("key-txns"));
}

RC_GTEST_PROP(Keys, TraceKeysComeApartAsTheyWereBuilt, ()) {
  const auto [tenant, text] = *rc::gen::pair(names(), names());
  const std::optional<Pid> pid =
      *rc::gen::arbitrary<bool>() ? std::optional(Pid{*rc::gen::arbitrary<std::uint64_t>()}) : std::nullopt;
  const auto number = *rc::gen::arbitrary<std::uint64_t>();
  const auto time = *rc::gen::arbitrary<std::int64_t>();
  const Uuid id = *uuids();
  const auto trace = parse_trace_key(trace_key(tenant, pid, text, number));
  RC_ASSERT(trace.has_value() && trace->tenant == tenant && trace->pid == pid);
  RC_ASSERT(trace->transaction_id == text && trace->sequence == number);
  const auto name = parse_trace_name_key(trace_name_key(tenant, text, time, id));
  RC_ASSERT(name.has_value() && name->tenant == tenant && name->name == text);
  RC_ASSERT(name->created_at == time && name->id == id);
  const auto expiry = parse_trace_expiry_key(trace_expiry_key(time, id));
  RC_ASSERT(expiry.has_value() && expiry->created_at == time && expiry->id == id);
  Bytes unknown = trace_key("t", std::nullopt, "x", 1);
  unknown[3] = '\2';
  RC_ASSERT(!parse_trace_key(unknown) && !parse_trace_key(unknown.substr(1)));
}

TEST(Keys, MetaNamesAreRawAscii) {
  EXPECT_EQ(meta_qlog_tail(LogId{17}), "qlog_tail/17");
  EXPECT_EQ(meta_qlog_files(LogId{~0ULL}), "qlog_files/18446744073709551615");
  EXPECT_EQ(meta_rows(Keyspace::queue_partitions), "rows/queue_partitions");
  EXPECT_EQ(meta_membership(3), "membership:3");
  EXPECT_EQ(meta_apply_skipped(EntryIndex{9}), "apply_skipped/9");
  EXPECT_EQ(meta_log_id(kMetaQlogTailPrefix, "qlog_tail/17"), LogId{17});
}

TEST(Keys, MetaLogIdRefusesEveryOtherSpelling) {
  for (const char* bad : {"qlog_tail/", "qlog_tail/017", "qlog_tail/+1", "qlog_tail/1x", "qlog_files/1",
                          "qlog_tail/18446744073709551616"})
    EXPECT_FALSE(meta_log_id(kMetaQlogTailPrefix, bad)) << bad;
}

TEST(Keys, MetaNodeLocalNamesAreExactlyThoseOfTheSpecification) {
  for (const char* local :
       {"durable_index", "qlog_durable_index", "qlog_tail/1", "qlog_files/1", "rows/kv", "store_format"})
    EXPECT_TRUE(meta_is_node_local(local)) << local;
  for (const char* shared :
       {"applied_index", "applied_term", "next_pid", "kv_version_next", "last_now_us", "max_created_at_us",
        "cluster_version", "membership", "membership:1", "digest_chain", "apply_skipped/1"})
    EXPECT_FALSE(meta_is_node_local(shared)) << shared;
}

RC_GTEST_PROP(Keys, GroupKeysSortAsTheirTuples, ()) {
  const auto a = *rc::gen::tuple(names(), names(), names());
  const auto b = *rc::gen::tuple(names(), names(), names());
  const Bytes key_a = std::apply([](auto&... part) { return group_key(part...); }, a);
  const Bytes key_b = std::apply([](auto&... part) { return group_key(part...); }, b);
  // char_traits compares as unsigned bytes, for the tuples' strings too.
  RC_ASSERT((key_a < key_b) == (a < b));
  RC_ASSERT((key_a == key_b) == (a == b));
}

RC_GTEST_PROP(Keys, DlqByPosKeysSortAsTheirTuples, ()) {
  const auto part =
      rc::gen::tuple(rc::gen::arbitrary<std::uint64_t>(), names(), rc::gen::arbitrary<std::int64_t>());
  const auto a = *part;
  const auto b = *part;
  const auto key = [](const auto& of) {
    return dlq_by_pos_key(Pid{std::get<0>(of)}, std::get<1>(of), std::get<2>(of));
  };
  RC_ASSERT((key(a) < key(b)) == (a < b));
}

RC_GTEST_PROP(Keys, TxnsKeysSortAsTheirTuples, ()) {
  const auto offsets =
      rc::gen::map(rc::gen::pair(rc::gen::arbitrary<std::uint64_t>(), rc::gen::inRange(1, 64)),
                   [](const std::pair<std::uint64_t, int>& of) {
                     return static_cast<std::int64_t>(of.first >> of.second);
                   });
  const auto a = *rc::gen::pair(rc::gen::inRange<std::uint64_t>(0, 3), offsets);
  const auto b = *rc::gen::pair(rc::gen::inRange<std::uint64_t>(0, 3), offsets);
  const auto key = [](const auto& of) { return txns_key(Pid{of.first}, of.second); };
  RC_ASSERT((key(a) < key(b)) == (a < b));
  RC_ASSERT((key(a) == key(b)) == (a == b));
}

TEST(Keys, AnOffsetHasOneSpelling) {
  const Bytes pid(8, '\0');
  EXPECT_TRUE(parse_txns_key(pid + Bytes("\0", 1)));
  for (const Bytes& bad : {Bytes(), Bytes("\1\0", 2), Bytes("\2\0\1", 3), Bytes("\1"), Bytes("\0\0", 2),
                           Bytes("\x08\x80\0\0\0\0\0\0\0", 9), Bytes("\x09\1\1\1\1\1\1\1\1\1", 10)})
    EXPECT_FALSE(parse_txns_key(pid + bad)) << hex_lower(bad);
}

RC_GTEST_PROP(Keys, LeaseKeysSortAsTheirTuples, ()) {
  const auto part = rc::gen::tuple(names(), rc::gen::arbitrary<std::uint64_t>(), names());
  const auto a = *part;
  const auto b = *part;
  const auto key = [](const auto& of) {
    return lease_by_worker_key(std::get<0>(of), Pid{std::get<1>(of)}, std::get<2>(of));
  };
  RC_ASSERT((key(a) < key(b)) == (a < b));
}

RC_GTEST_PROP(Keys, KvKeysSortAsTheirTuplesAndKeepTheRawTail, ()) {
  const auto a = *rc::gen::tuple(names(), names(), names());
  const auto b = *rc::gen::tuple(names(), names(), names());
  const auto key = [](const auto& of) { return kv_key(std::get<0>(of), std::get<1>(of), std::get<2>(of)); };
  RC_ASSERT((key(a) < key(b)) == (a < b));
  const auto back = parse_kv_key(key(a));
  RC_ASSERT(back.has_value());
  RC_ASSERT(std::tie(back->tenant, back->ns, back->key) ==
            std::tie(std::get<0>(a), std::get<1>(a), std::get<2>(a)));
}

RC_GTEST_PROP(Keys, TimesSortAcrossZero, (std::int64_t a, std::int64_t b, std::uint64_t version)) {
  RC_ASSERT((kv_expiry_key(a, version) < kv_expiry_key(b, version)) == (a < b));
  // Everything that expires before b, and nothing else, is below the bound of b.
  RC_ASSERT((kv_expiry_key(a, version) < kv_expiry_bound(b)) == (a < b));
}

RC_GTEST_PROP(Keys, PrefixHoldsExactlyTheKeysOfItsNames, ()) {
  const auto tenant = *names();
  const auto queue = *names();
  const auto other_tenant = *names();
  const auto other_queue = *names();
  const Bytes key = queue_partition_key(other_tenant, other_queue, Pid{5});
  const bool same = tenant == other_tenant && queue == other_queue;
  RC_ASSERT(key.starts_with(queue_partitions_prefix(tenant, queue)) == same);
}

RC_GTEST_PROP(Keys, ParsersGiveBackWhatBuildersTook, (std::uint64_t number, std::int64_t time)) {
  const auto a = *names();
  const auto b = *names();
  const auto c = *names();
  const Uuid id = *uuids();
  const Pid pid{number};
  const auto queue = parse_queue_key(queue_key(a, b));
  RC_ASSERT(queue && queue->tenant == a && queue->queue == b);
  const auto group = parse_group_key(group_key(a, b, c));
  RC_ASSERT(group && group->tenant == a && group->queue == b && group->group == c);
  RC_ASSERT(parse_partition_key(partition_key(pid)) == pid);
  RC_ASSERT(parse_partition_by_key(partition_by_key(a, b, c)) == c);
  RC_ASSERT(parse_queue_partition_key(queue_partition_key(a, b, pid)) == pid);
  const auto cursor = parse_cursor_key(cursor_key(pid, a));
  RC_ASSERT(cursor && cursor->pid == pid && cursor->group == a);
  const auto lease = parse_lease_by_worker_key(lease_by_worker_key(a, pid, b));
  RC_ASSERT(lease && lease->worker == a && lease->pid == pid && lease->group == b);
  const auto pending = parse_pending_key(pending_key(a, b, c, pid));
  RC_ASSERT(pending && pending->tenant == a && pending->queue == b && pending->group == c &&
            pending->pid == pid);
  RC_ASSERT(pending_pid(pending_key(a, b, c, pid)) == pid);
  const auto txns = parse_txns_key(txns_key(pid, time & INT64_MAX));
  RC_ASSERT(txns && txns->pid == pid && txns->base_offset == (time & INT64_MAX));
  const auto dlq = parse_dlq_key(dlq_key(a, b, id));
  RC_ASSERT(dlq && dlq->tenant == a && dlq->queue == b && dlq->dlq_id == id);
  const auto position = parse_dlq_by_pos_key(dlq_by_pos_key(pid, a, time));
  RC_ASSERT(position && position->pid == pid && position->group == a && position->offset == time);
}

RC_GTEST_PROP(Keys, ParsersGiveBackWhatBuildersTookInOtherTables, (std::uint64_t number, std::int64_t time)) {
  const auto a = *names();
  const auto b = *names();
  const auto c = *names();
  const Uuid id = *uuids();
  const auto expiry = parse_kv_expiry_key(kv_expiry_key(time, number));
  RC_ASSERT(expiry && expiry->expires_at == time && expiry->version == number);
  const auto timer = parse_timer_key(timer_key(a, b, c));
  RC_ASSERT(timer && timer->tenant == a && timer->queue == b && timer->timer == c);
  const auto due = parse_timer_due_key(timer_due_key(time, a, b, c));
  RC_ASSERT(due && due->due == time && due->timer.tenant == a && due->timer.queue == b &&
            due->timer.timer == c);
  RC_ASSERT(parse_request_id_key(request_id_key(id)) == id);
  const auto request = parse_request_expiry_key(request_expiry_key(time, id));
  RC_ASSERT(request && request->now == time && request->request_id == id);
  const auto query = parse_streams_query_key(streams_query_key(a, id));
  RC_ASSERT(query && query->tenant == a && query->query_id == id);
  const auto state = parse_streams_state_key(streams_state_key(id, Pid{number}, a));
  RC_ASSERT(state && state->query_id == id && state->pid == Pid{number} && state->key == a);
  RC_ASSERT(parse_flag_key(flag_key(a)) == a);
  RC_ASSERT(parse_garbage_key(garbage_key(Pid{number})) == Pid{number});
}

RC_GTEST_PROP(Keys, CounterKeysParseInEveryScope, (std::uint64_t number)) {
  const auto a = *names();
  const auto b = *names();
  const auto c = *names();
  const std::array<Bytes, 4> ids{counter_id(Pid{number}), counter_id(a, b), counter_id(a),
                                 counter_id(a, b, c)};
  for (std::size_t scope = 0; scope < ids.size(); ++scope) {
    const auto key = counter_key(static_cast<CounterScope>(scope), ids[scope], Counter::last_pop_us);
    const auto back = parse_counter_key(key);
    RC_ASSERT(back && back->scope == static_cast<CounterScope>(scope) && back->id == ids[scope]);
    RC_ASSERT(back->counter == Counter::last_pop_us);
    RC_ASSERT(key.starts_with(counters_prefix(static_cast<CounterScope>(scope), ids[scope])));
  }
}

// A key cut anywhere, or with a byte more, is no key of its table.
TEST(Keys, ParsersRefuseEveryTruncationAndALeftoverByte) {
  const std::string zero("a\0", 2);
  const Bytes group = group_key("t", zero, "g");
  for (std::size_t n = 0; n < group.size(); ++n)
    EXPECT_FALSE(parse_group_key(BytesView(group).substr(0, n))) << n;
  EXPECT_FALSE(parse_group_key(group + "x"));
  const Bytes pending = pending_key("t", zero, "g", Pid{1});
  for (std::size_t n = 0; n < pending.size(); ++n)
    EXPECT_FALSE(pending_pid(BytesView(pending).substr(0, n))) << n;
  EXPECT_FALSE(pending_pid(pending + "x"));
  const Bytes lease = lease_by_worker_key("w", Pid{1}, zero);
  for (std::size_t n = 0; n < lease.size(); ++n)
    EXPECT_FALSE(parse_lease_by_worker_key(BytesView(lease).substr(0, n))) << n;
  EXPECT_FALSE(parse_lease_by_worker_key(lease + "x"));
}

TEST(Keys, ParsersRefuseAnEscapeThatDoesNotExist) {
  EXPECT_FALSE(parse_flag_key(BytesView("a\0\1b\0\0", 6)));
  EXPECT_FALSE(parse_queue_key(BytesView("a\0\1b\0\0c\0\0", 9)));
  EXPECT_FALSE(parse_counter_key(BytesView("\4aaaaaaaa\0\0", 11)));
}

RC_GTEST_PROP(Keys, NameBytesIsWhatTheNameTakes, ()) {
  const auto name = *names();
  Bytes key;
  append_key_name(key, name);
  RC_ASSERT(key.size() == key_name_bytes(name));
}

}  // namespace
}  // namespace queen::store
