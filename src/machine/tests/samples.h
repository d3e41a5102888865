// Entries with one effect of each kind, with every field set: what the golden files hold.
#pragma once

#include "machine/effects.h"
#include "machine/tests/harness.h"

namespace queen::machine::testing {

inline Entry sample_entry_of_catalogue_1() {
  Entry entry;
  entry.now_us = 1'700'000'000'000'001;
  entry.pid_base = 41;
  entry.kv_version_base = 9;
  entry.commands = {{numbered_uuid(1), 0, 5}, {numbered_uuid(2), 5, 4}};

  store::QueueRow queue;
  queue.uuid = numbered_uuid(3);
  queue.namespace_name = "acme";
  queue.created_at = 1'700'000'000'000'001;
  store::GroupRow group;
  group.uuid = numbered_uuid(4);
  group.mode = store::GroupMode::timestamp;
  group.subscription_ts = 1'600'000'000'000'000;
  group.registered_at = 1'700'000'000'000'001;
  store::CursorRow cursor;
  cursor.committed = 4;
  cursor.batch_end = 8;
  cursor.worker = "lease";
  cursor.lease_expires = 1'700'000'060'000'001;
  cursor.lease_acquired = 1'700'000'000'000'001;
  cursor.attempt_offset = 5;
  cursor.attempt_count = 1;
  cursor.released = store::ReleasedLease{"before", 1, 4};
  store::DeadLetterRow letter;
  letter.pid = Pid{41};
  letter.group = "g";
  letter.offset = 3;
  letter.message_id = numbered_uuid(5);
  letter.transaction_id = "t-3";
  letter.payload = "{\"kwh\":12.50}";
  letter.error = "offline";
  letter.retry_count = 2;
  letter.failed_at = 1'700'000'000'000'001;
  store::KvRow kv;
  kv.value = "42.00";
  kv.version = 9;
  kv.expires_at = 1'700'000'030'000'001;
  kv.created = kv.updated = 1'700'000'000'000'001;

  Append append;
  append.pid = Pid{41};
  append.bucket = 200;
  append.base_offset = 7;
  append.count = 2;
  append.created_at = 1'700'000'000'000'001;
  append.hashes = Bytes(xxh3_128("t-7").view()) + Bytes(xxh3_128("t-8").view());
  append.payload_bytes = 64;

  entry.effects.emplace_back(Noop{});
  entry.effects.emplace_back(QueueUpsert{kTenant, "meters", queue});
  entry.effects.emplace_back(GroupUpsert{kTenant, "meters", "g", group});
  entry.effects.emplace_back(
      PartitionCreate{Pid{41}, numbered_uuid(6), kTenant, "meters", "unit-7", 1'700'000'000'000'001});
  entry.effects.emplace_back(append);
  entry.effects.emplace_back(CursorSet{Pid{41}, "g", cursor, 1});
  entry.effects.emplace_back(DlqInsert{numbered_uuid(7), kTenant, "meters", letter});
  entry.effects.emplace_back(KvPut{kTenant, "carts", "c-81", kv});
  entry.effects.emplace_back(KvDelete{kTenant, "carts", "c-99"});
  return entry;
}

inline Entry sample_entry_of_catalogue_2() {
  Entry entry = sample_entry_of_catalogue_1();
  Watermark mark;
  mark.pid = Pid{41};
  mark.log_start = 6;
  mark.txns_start = 3;
  mark.rows_start = 5;
  mark.retained_bytes = 320;
  mark.oldest_live_at = 1'699'999'999'000'000;
  mark.dead_letters_max = 100;
  const auto first = static_cast<std::uint32_t>(entry.effects.size());
  entry.effects.emplace_back(mark);
  entry.effects.emplace_back(CursorDelete{Pid{41}, "g"});
  entry.effects.emplace_back(GroupDelete{kTenant, "meters", "g"});
  entry.effects.emplace_back(DlqDelete{kTenant, "meters", numbered_uuid(7)});
  entry.effects.emplace_back(PartitionDelete{Pid{41}});
  entry.effects.emplace_back(GarbageAdd{numbered_uuid(3), 1'700'000'000'000'001, {Pid{39}, Pid{40}}});
  entry.effects.emplace_back(QueueDelete{kTenant, "meters"});
  entry.effects.emplace_back(DeleteChunk{1'000, {Pid{39}, Pid{40}}});
  entry.commands.push_back(
      {numbered_uuid(8), first, static_cast<std::uint32_t>(entry.effects.size()) - first});
  return entry;
}

// The row versions that catalogue 3 added.
inline Entry sample_entry_of_rows_3() {
  Entry entry;
  entry.now_us = 1'700'000'000'000'001;
  entry.pid_base = 41;
  entry.kv_version_base = 9;
  store::QueueRow queue;
  queue.uuid = numbered_uuid(3);
  queue.window_buffer = 2;
  queue.window_buffer_max_seconds = 30;
  store::CursorRow cursor;
  cursor.committed = 5;
  cursor.batch_end = 8;
  cursor.worker = "lease";
  cursor.lease_expires = 1'700'000'060'000'001;
  cursor.lease_acquired = 1'700'000'000'000'001;
  cursor.batch_start = 4;
  entry.effects.emplace_back(QueueUpsert{kTenant, "meters", queue});
  entry.effects.emplace_back(CursorSet{Pid{41}, "g", cursor, 0});
  entry.commands = {{numbered_uuid(1), 0, 2}};
  return entry;
}

inline Entry sample_entry_of_catalogue_3() {
  Entry entry = sample_entry_of_catalogue_2();
  store::TraceRow trace;
  trace.id = numbered_uuid(9);
  trace.trace_id = numbered_uuid(10);
  trace.event_type = "info";
  trace.data = "{\"kwh\":12.50}";
  trace.message_id = "m-3";
  trace.group = "g";
  trace.worker = "w-1";
  trace.names = {"import", "nightly"};
  trace.created_at = 1'700'000'000'000'001;
  const auto first = static_cast<std::uint32_t>(entry.effects.size());
  entry.effects.emplace_back(TraceAppend{kTenant, Pid{41}, "t-3", trace});
  entry.effects.emplace_back(TraceExpire{1'699'000'000'000'000, 512});
  entry.commands.push_back({numbered_uuid(11), first, 2});
  return entry;
}

inline Entry sample_entry() {
  Entry entry = sample_entry_of_catalogue_3();
  store::TimerRow timer;
  timer.partition = "unit-7";
  timer.deliver_at = 1'700'000'900'000'001;
  timer.visible_at = 1'700'000'901'000'001;
  timer.payload = "{\"kwh\":12.50}";
  timer.encrypted = true;
  timer.transaction_id = "bill-7";
  timer.message_id = numbered_uuid(12);
  timer.attempts = 1;
  timer.last_error = "too large";
  timer.producer_sub = "svc";
  timer.created = timer.updated = 1'700'000'000'000'001;
  const store::StreamsQueryRow query{
      "hourly", "meters", "sums", "abc", 1'700'000'000'000'001, 1'700'000'000'000'001};
  store::EphemeralRow ephemeral;
  ephemeral.max_bytes = 4096;
  ephemeral.policy = store::EphemeralPolicy::drop_oldest;
  ephemeral.window_ms = 20;
  ephemeral.created = 1'700'000'000'000'001;
  store::QuotaRow quota;
  quota.enabled = true;
  quota.max_rows = 1000;
  const auto first = static_cast<std::uint32_t>(entry.effects.size());
  entry.effects.emplace_back(TimerUpsert{kTenant, "meters", "inv/7", timer});
  entry.effects.emplace_back(
      TimerBackoff{kTenant, "meters", "inv/7", 1'700'000'902'000'001, 2, "too large", 1'700'000'000'000'001});
  entry.effects.emplace_back(TimerDelete{kTenant, "meters", "inv/7"});
  entry.effects.emplace_back(StreamsQueryUpsert{kTenant, numbered_uuid(13), query});
  entry.effects.emplace_back(
      StreamsStatePut{numbered_uuid(13), Pid{41}, "__wm__", {"{\"eventTimeMs\":1}", 1'700'000'000'000'001}});
  entry.effects.emplace_back(StreamsStateDelete{numbered_uuid(13), Pid{41}, "__wm__"});
  entry.effects.emplace_back(FlagSet{"kv_enabled", Bytes("false")});
  entry.effects.emplace_back(FlagSet{"kv_enabled", std::nullopt});
  entry.effects.emplace_back(QuotaSet{store::QuotaKind::kv, kTenant, quota});
  entry.effects.emplace_back(QuotaSet{store::QuotaKind::streams, kTenant, std::nullopt});
  entry.effects.emplace_back(EphemeralConfigSet{kTenant, "inbox", ephemeral});
  entry.effects.emplace_back(EphemeralConfigDelete{kTenant, "inbox"});
  entry.commands.push_back(
      {numbered_uuid(14), first, static_cast<std::uint32_t>(entry.effects.size()) - first});
  return entry;
}

}  // namespace queen::machine::testing
