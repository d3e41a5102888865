#include "store/rows.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>

#include "base/text.h"
#include "store/tests/golden.h"

namespace queen::store {
namespace {

Uuid uuid_from(std::uint8_t first) {
  Uuid out;
  for (std::size_t i = 0; i < 16; ++i) out.bytes[i] = static_cast<std::uint8_t>(first + i);
  return out;
}
Hash128 hash_from(std::uint8_t first) {
  return {uuid_from(first).bytes};
}

QueueRow sample_queue() {
  QueueRow row = QueueRow::configure_defaults();
  row.uuid = uuid_from(0);
  row.namespace_name = "acme";
  row.task = std::nullopt;
  row.retention_sink_hold = "lake";
  row.created_at = 1'700'000'000'000'000;
  return row;
}
QueueRow sample_queue_v2() {
  QueueRow row = sample_queue();
  row.window_buffer = 2;
  row.window_buffer_max_seconds = 30;
  return row;
}
GroupRow sample_group() {
  return {uuid_from(16), "", "acme", "", GroupMode::timestamp, 5, true, false, 1'000'001, 42, 3};
}
PartitionRow sample_partition() {
  return {uuid_from(32), "t", "q", "p", 9, 2, 1, 1, 100, std::nullopt, 50, 99};
}
PartitionRow sample_partition_of_tenant() {
  PartitionRow row = sample_partition();
  row.tenant = "018f2b3c-0000-7000-8000-0000000000aa";
  row.oldest_live_at = 60;
  return row;
}
PartitionRow sample_partition_of_default() {
  PartitionRow row;
  row.uuid = uuid_from(32);
  row.tenant = kDefaultTenant;
  row.queue = "queue";
  row.partition = "Default";
  row.created_at = row.last_write_at = 1'700'000'000'000'000;
  return row;
}
CursorRow sample_cursor() {
  CursorRow row;
  row.committed = 4;
  row.batch_end = 7;
  row.worker = "w";
  row.lease_expires = 1'000;
  row.lease_acquired = 900;
  row.batch_retry_count = 1;
  row.attempt_offset = 5;
  row.attempt_count = 2;
  row.total_consumed = 5;
  row.lease_conflated = true;
  row.delivered = {hash_from(1), hash_from(2)};
  row.created_at = 10;
  return row;
}
CursorRow sample_cursor_v2() {
  CursorRow row;
  row.metadata = "note";
  return row;
}
CursorRow sample_cursor_v3() {
  CursorRow row = sample_cursor_v2();
  row.released = ReleasedLease{"w", 5, 7};
  return row;
}
CursorRow sample_cursor_v4() {
  CursorRow row = sample_cursor_v3();
  row.batch_start = 8;
  return row;
}
AppendRow sample_append() {
  return {11, 1'000, {hash_from(1), hash_from(2)}, 64};
}
DeadLetterRow sample_dead_letter() {
  return {Pid{7}, "g", 3, uuid_from(48), "tx", "{}", "Retries exhausted", 3, 2'000};
}
KvRow sample_kv() {
  return {"value", 9, 3'000, 1'000, 2'000};
}
TimerRow sample_timer() {
  return {"Default", 500, 600, "{}", false, true, "tx", uuid_from(64), 1, "no queue", std::nullopt, 100, 200};
}
TimerRow sample_timer_usual() {
  return {"acct-5",      500, std::nullopt, "\xFF", true, false, uuid_from(80).str(),
          uuid_from(64), 0,   std::nullopt, "svc",  200,  200};
}
StreamsQueryRow sample_query() {
  return {"sum", "in", "out", "abc", 1, 2};
}
TraceRow sample_trace() {
  return {uuid_from(96), uuid_from(112),  "info", "{\"kwh\":12.50}", "m", "g",
          std::nullopt,  {"import", "x"}, 9'000};
}
StreamsStateRow sample_state() {
  return {"{\"acc\":1}", 3};
}
EphemeralRow sample_ephemeral() {
  return {1, 2, EphemeralPolicy::drop_oldest, 3, 4, 5, 6, 7, 8};
}
QuotaRow sample_quota() {
  return {true, 1, 2, 3, 4, 5, 6, 7, 8, 9};
}
GarbageRow sample_garbage() {
  return {77, GarbageScope::queue, "", uuid_from(80), "resume"};
}
RequestIdRow sample_request() {
  return {88, "outcome"};
}

// One kind of row: its name, a sample's bytes, and whether bytes decode (and encode back to themselves).
struct Kind {
  std::string name;
  Bytes bytes;
  std::function<bool(BytesView)> accepts;
};

template <class Row>
Kind kind(const std::string& name, const Row& row) {
  return {name, row.encode(), [](BytesView bytes) {
            const auto back = Row::decode(bytes);
            // What decodes has one encoding only: two spellings of a row would give two nodes different
            // digests.
            if (!back) return false;
            EXPECT_EQ(hex_lower(back->encode()), hex_lower(bytes));
            return true;
          }};
}

std::vector<Kind> kinds() {
  return {kind("row-queue", sample_queue()),
          kind("row-queue-v2", sample_queue_v2()),
          kind("row-group", sample_group()),
          kind("row-partition", sample_partition()),
          kind("row-partition-tenant", sample_partition_of_tenant()),
          kind("row-partition-default", sample_partition_of_default()),
          kind("row-cursor-v1", sample_cursor()),
          kind("row-cursor-v2", sample_cursor_v2()),
          kind("row-cursor-v3", sample_cursor_v3()),
          kind("row-cursor-v4", sample_cursor_v4()),
          kind("row-append", sample_append()),
          kind("row-dead-letter", sample_dead_letter()),
          kind("row-kv", sample_kv()),
          kind("row-timer", sample_timer()),
          kind("row-timer-usual", sample_timer_usual()),
          kind("row-streams-query", sample_query()),
          kind("row-trace", sample_trace()),
          kind("row-streams-state", sample_state()),
          kind("row-ephemeral", sample_ephemeral()),
          kind("row-quota", sample_quota()),
          kind("row-garbage", sample_garbage()),
          kind("row-request-id", sample_request())};
}

TEST(Rows, EncodeExactlyAsGolden) {
  for (const Kind& one : kinds()) EXPECT_EQ(hex_lower(one.bytes), golden(one.name)) << one.name;
}

TEST(Rows, DecodeGoldenBytes) {
  for (const Kind& one : kinds()) EXPECT_TRUE(one.accepts(hex_decode(golden(one.name)).value())) << one.name;
}

TEST(Rows, RefuseEveryTruncation) {
  for (const Kind& one : kinds())
    for (std::size_t n = 0; n < one.bytes.size(); ++n)
      EXPECT_FALSE(one.accepts(BytesView(one.bytes).substr(0, n))) << one.name << " at " << n;
}

TEST(Rows, RefuseALeftoverByte) {
  for (const Kind& one : kinds()) EXPECT_FALSE(one.accepts(one.bytes + '\0')) << one.name;
}

TEST(Rows, RefuseUnknownVersions) {
  for (const Kind& one : kinds()) {
    for (const char version : {'\0', '\5', '\xFF'}) {
      Bytes bytes = one.bytes;
      bytes[0] = version;
      EXPECT_FALSE(one.accepts(bytes)) << one.name;
    }
  }
}

// Any byte changed: refused, or another row with this one encoding (checked by accepts).
TEST(Rows, ChangedBytesDecodeToWhatTheySayOrNotAtAll) {
  for (const Kind& one : kinds()) {
    for (std::size_t at = 0; at < one.bytes.size(); ++at) {
      for (const int flip : {0x01, 0x02, 0x80, 0xFF}) {
        Bytes bytes = one.bytes;
        bytes[at] = static_cast<char>(bytes[at] ^ flip);
        one.accepts(bytes);
      }
    }
  }
}

TEST(Rows, DecodeGivesBackTheFields) {
  EXPECT_EQ(QueueRow::decode(sample_queue().encode()).value(), sample_queue());
  EXPECT_EQ(GroupRow::decode(sample_group().encode()).value(), sample_group());
  for (const PartitionRow& row :
       {sample_partition(), sample_partition_of_tenant(), sample_partition_of_default()})
    EXPECT_EQ(PartitionRow::decode(row.encode()).value(), row);
  EXPECT_EQ(CursorRow::decode(sample_cursor().encode()).value(), sample_cursor());
  EXPECT_EQ(CursorRow::decode(sample_cursor_v2().encode()).value(), sample_cursor_v2());
  EXPECT_EQ(CursorRow::decode(sample_cursor_v3().encode()).value(), sample_cursor_v3());
  EXPECT_EQ(AppendRow::decode(sample_append().encode()).value(), sample_append());
  EXPECT_EQ(DeadLetterRow::decode(sample_dead_letter().encode()).value(), sample_dead_letter());
  EXPECT_EQ(KvRow::decode(sample_kv().encode()).value(), sample_kv());
  EXPECT_EQ(TimerRow::decode(sample_timer().encode()).value(), sample_timer());
  EXPECT_EQ(TimerRow::decode(sample_timer_usual().encode()).value(), sample_timer_usual());
  EXPECT_EQ(StreamsQueryRow::decode(sample_query().encode()).value(), sample_query());
  EXPECT_EQ(TraceRow::decode(sample_trace().encode()).value(), sample_trace());
  EXPECT_EQ(StreamsStateRow::decode(sample_state().encode()).value(), sample_state());
  EXPECT_EQ(EphemeralRow::decode(sample_ephemeral().encode()).value(), sample_ephemeral());
  EXPECT_EQ(QuotaRow::decode(sample_quota().encode()).value(), sample_quota());
  EXPECT_EQ(GarbageRow::decode(sample_garbage().encode()).value(), sample_garbage());
  EXPECT_EQ(RequestIdRow::decode(sample_request().encode()).value(), sample_request());
}

TEST(Rows, TheHeadOfADeadLetterIsWhatTheRowSays) {
  for (const bool with_id : {true, false}) {
    DeadLetterRow row = sample_dead_letter();
    if (!with_id) row.message_id.reset();
    const Bytes bytes = row.encode();
    const auto head = DeadLetterHead::decode(bytes);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->pid, row.pid);
    EXPECT_EQ(head->group, row.group);
    EXPECT_EQ(head->offset, row.offset);
    EXPECT_EQ(head->transaction_id, row.transaction_id);
    EXPECT_EQ(head->failed_at, row.failed_at);
    for (std::size_t n = 0; n < bytes.size(); ++n)
      EXPECT_FALSE(DeadLetterHead::decode(BytesView(bytes).substr(0, n))) << n;
    EXPECT_FALSE(DeadLetterHead::decode(bytes + '\0'));
  }
}

TEST(Rows, QueueDefaultsAreThoseOfPushAndOfConfigure) {
  const QueueRow pushed;
  EXPECT_EQ(pushed.lease_time, 60);
  EXPECT_EQ(pushed.retention_sink_hold_max_seconds, 0);
  EXPECT_EQ(pushed.dedup_window_seconds, 3600);
  const QueueRow configured = QueueRow::configure_defaults();
  EXPECT_EQ(configured.lease_time, 300);
  EXPECT_EQ(configured.retention_sink_hold_max_seconds, 604'800);
  EXPECT_EQ(configured.namespace_name, "");
}

TEST(Rows, CursorTakesTheLowestVersionThatHoldsIt) {
  EXPECT_EQ(sample_cursor().version(), 1);
  EXPECT_EQ(sample_cursor_v2().version(), 2);
  EXPECT_EQ(sample_cursor_v3().version(), 3);
  // Version 2 with empty metadata would be a second spelling of version 1.
  Bytes padded = sample_cursor().encode();
  padded[0] = '\2';
  padded.append(4, '\0');
  EXPECT_FALSE(CursorRow::decode(padded));
}

TEST(Rows, HostileCountsAreRefusedBeforeTheyAreAllocated) {
  Bytes cursor = CursorRow{}.encode();
  // The count of delivered ids stands before created_at, at the end.
  store_le(cursor.data() + cursor.size() - 12, std::uint32_t{0xFFFFFFFF});
  EXPECT_FALSE(CursorRow::decode(cursor));
  Bytes append = AppendRow{}.encode();
  append.replace(10, 1, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x0F");
  EXPECT_FALSE(AppendRow::decode(append));
  Bytes trace = TraceRow{}.encode();
  // The count of names stands before created_at, at the end.
  store_le(trace.data() + trace.size() - 12, std::uint32_t{0xFFFFFFFF});
  EXPECT_FALSE(TraceRow::decode(trace));
  Bytes list;
  append_le(list, std::uint32_t{0xFFFFFFFF});
  EXPECT_FALSE(decode_meta_u32_list(list));
}

RC_GTEST_PROP(Rows, AppendViewFindsTheFirstPositionOfAHash,
              (std::vector<std::uint8_t> seeds, std::uint8_t wanted)) {
  AppendRow row;
  for (const std::uint8_t seed : seeds) row.hashes.push_back(hash_from(seed % 8));
  const Bytes bytes = row.encode();
  const auto view = AppendRowView::decode(bytes);
  RC_ASSERT(view.has_value());
  RC_ASSERT(view->count() == row.hashes.size());
  const auto at = std::find(row.hashes.begin(), row.hashes.end(), hash_from(wanted % 8));
  const auto found = view->find(hash_from(wanted % 8));
  RC_ASSERT(found.has_value() == (at != row.hashes.end()));
  RC_ASSERT(!found || *found == static_cast<std::size_t>(at - row.hashes.begin()));
}

RC_GTEST_PROP(Rows, PartitionsRoundTrip, (std::array<std::int64_t, 8> numbers, std::string text, bool flag)) {
  PartitionRow row{uuid_from(1), text,       text,       text,       numbers[0], numbers[1],
                   numbers[2],   numbers[3], numbers[4], numbers[5], numbers[6], numbers[7]};
  if (flag) row.oldest_live_at = std::nullopt;
  RC_ASSERT(PartitionRow::decode(row.encode()).value() == row);
}

RC_GTEST_PROP(Rows, AppendsRoundTrip, (std::int64_t end, std::int64_t created, bool flag)) {
  AppendRow row{end & INT64_MAX, created, {}, std::nullopt};
  row.hashes.resize(*rc::gen::inRange<std::size_t>(0, 300));
  if (flag) row.retained_bytes = *rc::gen::arbitrary<std::uint32_t>();
  RC_ASSERT(AppendRow::decode(row.encode()).value() == row);
}

// LIM-2: what the rows of an idle partition take in a tenant's queue, beside what a block adds to each.
TEST(Rows, OfAPartitionAreShort) {
  PartitionRow row = sample_partition_of_default();
  row.partition = "device-12345678";
  row.last_offset = 0;
  row.oldest_live_at = row.last_created_at = row.last_write_at = row.created_at + 1'000;
  EXPECT_LE(row.encode().size(), 56U);
  AppendRow append{0, row.created_at, {hash_from(1)}, 310};
  EXPECT_LE(append.encode().size(), 29U);
}

// A tenant that is written in two ways would give one partition two rows.
TEST(Rows, ATenantHasOneSpelling) {
  Bytes text = sample_partition().encode();
  ASSERT_EQ(text.substr(18, 2), Bytes("\x01t"));
  const Bytes canonical = sample_partition_of_tenant().tenant;
  text.replace(18, 2, static_cast<char>(canonical.size()) + canonical);
  EXPECT_FALSE(PartitionRow::decode(text));
  Bytes as_uuid = sample_partition_of_tenant().encode();
  as_uuid.replace(18, 16, Uuid::parse(kDefaultTenant)->view());
  EXPECT_FALSE(PartitionRow::decode(as_uuid));
}

RC_GTEST_PROP(Rows, CursorsRoundTrip, (std::int64_t number, std::string text, bool flag)) {
  CursorRow row;
  row.committed = number;
  row.worker = flag ? std::optional(text) : std::nullopt;
  row.lease_expires = flag ? std::nullopt : std::optional(number);
  row.lease_conflated = flag;
  row.metadata = *rc::gen::arbitrary<std::string>();
  if (*rc::gen::arbitrary<bool>()) row.released = ReleasedLease{text, number, number};
  if (*rc::gen::arbitrary<bool>()) row.batch_start = number;
  row.delivered.resize(*rc::gen::inRange<std::size_t>(0, 5));
  RC_ASSERT(CursorRow::decode(row.encode()).value() == row);
}

RC_GTEST_PROP(Rows, KvRowsRoundTrip,
              (std::string value, std::uint64_t version, std::int64_t time, bool expires)) {
  const KvRow row{value, version, expires ? std::optional(time) : std::nullopt, time, time};
  RC_ASSERT(KvRow::decode(row.encode()).value() == row);
}

TEST(Rows, KvRowIsLiveOnlyBeforeItsExpiry) {
  KvRow row;
  EXPECT_TRUE(row.live_at(INT64_MAX));
  row.expires_at = 10;
  EXPECT_TRUE(row.live_at(9));
  EXPECT_FALSE(row.live_at(10));
}

RC_GTEST_PROP(Rows, SmallRowsRoundTrip,
              (std::int64_t number, std::string text, std::vector<std::uint32_t> list)) {
  RC_ASSERT(decode_i64_row(encode_i64_row(number)).value() == number);
  RC_ASSERT(decode_pid_row(encode_pid_row(Pid{static_cast<std::uint64_t>(number)})).value().value ==
            static_cast<std::uint64_t>(number));
  RC_ASSERT(decode_bytes_row(encode_bytes_row(text)).value() == text);
  RC_ASSERT(decode_meta_i64(encode_meta_i64(number)).value() == number);
  RC_ASSERT(decode_meta_u64(encode_meta_u64(static_cast<std::uint64_t>(number))).value() ==
            static_cast<std::uint64_t>(number));
  RC_ASSERT(decode_meta_u32_list(encode_meta_u32_list(list)).value() == list);
  const std::vector<Uuid> ids(list.size() % 4, uuid_from(1));
  RC_ASSERT(decode_uuids_row(encode_uuids_row(ids)).value() == ids);
}

TEST(Rows, MetaNumbersHaveNoVersionByteAndRowsDo) {
  EXPECT_EQ(hex_lower(encode_meta_u64(258)), "0201000000000000");
  EXPECT_EQ(hex_lower(encode_i64_row(258)), "028404");
  EXPECT_EQ(hex_lower(encode_i64_row(-1)), "0201");
  EXPECT_EQ(hex_lower(encode_pid_row(Pid{258})), "028202");
  EXPECT_EQ(hex_lower(encode_meta_u32_list({1, 2})), "020000000100000002000000");
  EXPECT_FALSE(decode_meta_u64("1234567"));
  EXPECT_FALSE(decode_meta_u64("123456789"));
  EXPECT_FALSE(decode_i64_row("12345678"));
}

}  // namespace
}  // namespace queen::store
