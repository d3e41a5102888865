#include "cli/row_text.h"

#include "cli/json_line.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::cli {
namespace {

using store::Keyspace;

std::string json_of(const store::QueueRow& row, Payloads) {
  return JsonObject()
      .add("uuid", row.uuid)
      .add("namespace", row.namespace_name)
      .add("task", row.task)
      .add("priority", row.priority)
      .add("leaseTime", row.lease_time)
      .add("retryLimit", row.retry_limit)
      .add("retryDelay", row.retry_delay)
      .add("ttl", row.ttl)
      .add("deadLetterQueue", row.dead_letter_queue)
      .add("dlqAfterMaxRetries", row.dlq_after_max_retries)
      .add("delayedProcessing", row.delayed_processing)
      .add("windowBuffer", row.window_buffer)
      .add("windowBufferMaxSeconds", row.window_buffer_max_seconds)
      .add("retentionSeconds", row.retention_seconds)
      .add("completedRetentionSeconds", row.completed_retention_seconds)
      .add("retentionEnabled", row.retention_enabled)
      .add("encryptionEnabled", row.encryption_enabled)
      .add("maxWaitTimeSeconds", row.max_wait_time_seconds)
      .add("maxQueueSize", row.max_queue_size)
      .add("minPopWaitTime", row.min_pop_wait_time)
      .add("dedupWindowSeconds", row.dedup_window_seconds)
      .add("retentionSinkHold", row.retention_sink_hold)
      .add("retentionSinkHoldMaxSeconds", row.retention_sink_hold_max_seconds)
      .add("createdAt", row.created_at)
      .str();
}

std::string json_of(const store::GroupRow& row, Payloads) {
  return JsonObject()
      .add("uuid", row.uuid)
      .add("partition", row.partition_name)
      .add("namespace", row.namespace_name)
      .add("task", row.task)
      .add("mode", static_cast<unsigned>(row.mode))
      .add("subscriptionTs", row.subscription_ts)
      .add("conflation", row.conflation)
      .add("seeded", row.seeded)
      .add("registeredAt", row.registered_at)
      .add("regIndex", row.reg_index)
      .add("regEffect", row.reg_effect)
      .str();
}

std::string json_of(const store::PartitionRow& row, Payloads) {
  return JsonObject()
      .add("uuid", row.uuid)
      .add("tenant", row.tenant)
      .add("queue", row.queue)
      .add("partition", row.partition)
      .add("lastOffset", row.last_offset)
      .add("logStart", row.log_start)
      .add("txnsStart", row.txns_start)
      .add("rowsStart", row.rows_start)
      .add("lastWriteAt", row.last_write_at)
      .add("oldestLiveAt", row.oldest_live_at)
      .add("createdAt", row.created_at)
      .add("lastCreatedAt", row.last_created_at)
      .str();
}

std::string json_of(const store::CursorRow& row, Payloads) {
  JsonObject out;
  out.add("committed", row.committed)
      .add("batchEnd", row.batch_end)
      .add("worker", row.worker)
      .add("leaseExpires", row.lease_expires)
      .add("leaseAcquired", row.lease_acquired)
      .add("batchRetryCount", row.batch_retry_count)
      .add("attemptOffset", row.attempt_offset)
      .add("attemptCount", row.attempt_count)
      .add("totalConsumed", row.total_consumed)
      .add("leaseConflated", row.lease_conflated)
      .add("delivered", row.delivered.size())
      .add("createdAt", row.created_at)
      .add("metadata", row.metadata);
  if (row.batch_start) out.add("batchStart", row.batch_start);
  if (row.released)
    out.raw("released", JsonObject()
                            .add("worker", row.released->worker)
                            .add("first", row.released->first)
                            .add("last", row.released->last)
                            .str());
  return out.str();
}

std::string json_of(const store::AppendRow& row, Payloads) {
  std::string hashes;
  for (const auto& hash : row.hashes)
    hashes += (hashes.empty() ? "" : ",") + json_string(hex_lower(hash.view()));
  return JsonObject()
      .add("end", row.end)
      .add("createdAt", row.created_at)
      .raw("hashes", "[" + hashes + "]")
      .add("retainedBytes", row.retained_bytes)
      .str();
}

void add_payload(JsonObject& out, const char* name, const char* length_name, const Bytes& payload,
                 Payloads payloads) {
  out.add(length_name, payload.size());
  if (payloads == Payloads::shown) out.add(name, payload);
}

std::string json_of(const store::DeadLetterRow& row, Payloads payloads) {
  JsonObject out;
  out.add("pid", row.pid.value)
      .add("group", row.group)
      .add("offset", row.offset)
      .add("messageId", row.message_id)
      .add("transactionId", row.transaction_id)
      .add("error", row.error)
      .add("retryCount", row.retry_count)
      .add("failedAt", row.failed_at);
  add_payload(out, "payload", "payloadBytes", row.payload, payloads);
  return out.str();
}

std::string json_of(const store::KvRow& row, Payloads payloads) {
  JsonObject out;
  out.add("version", row.version)
      .add("expiresAt", row.expires_at)
      .add("created", row.created)
      .add("updated", row.updated);
  add_payload(out, "value", "valueBytes", row.value, payloads);
  return out.str();
}

std::string json_of(const store::TimerRow& row, Payloads payloads) {
  JsonObject out;
  out.add("partition", row.partition)
      .add("deliverAt", row.deliver_at)
      .add("visibleAt", row.visible_at)
      .add("transactionId", row.transaction_id)
      .add("messageId", row.message_id)
      .add("attempts", row.attempts)
      .add("lastError", row.last_error)
      .add("producerSub", row.producer_sub)
      .add("raw", row.raw)
      .add("encrypted", row.encrypted)
      .add("created", row.created)
      .add("updated", row.updated);
  add_payload(out, "payload", "payloadBytes", row.payload, payloads);
  return out.str();
}

std::string json_of(const store::TraceRow& row, Payloads payloads) {
  std::string names;
  for (const std::string& name : row.names) names += (names.empty() ? "" : ",") + json_string(name);
  JsonObject out;
  out.add("id", row.id)
      .add("traceId", row.trace_id)
      .add("eventType", row.event_type)
      .add("messageId", row.message_id)
      .add("group", row.group)
      .add("worker", row.worker)
      .raw("names", "[" + names + "]")
      .add("createdAt", row.created_at);
  add_payload(out, "data", "dataBytes", row.data, payloads);
  return out.str();
}

std::string json_of(const store::GarbageRow& row, Payloads) {
  return JsonObject()
      .add("deletedAt", row.deleted_at)
      .add("scope", static_cast<unsigned>(row.scope))
      .add("name", row.name)
      .add("queueUuid", row.queue_uuid)
      .add("resume", row.resume)
      .str();
}

std::string hex_of(BytesView value) {
  return JsonObject().add("hex", hex_lower(value)).str();
}

template <class Row>
std::string decoded(BytesView value, Payloads payloads) {
  const auto row = Row::decode(value);
  return row ? json_of(*row, payloads) : hex_of(value);
}

std::string number(BytesView value) {
  const auto row = store::decode_i64_row(value);
  return row ? JsonObject().add("value", *row).str() : hex_of(value);
}

std::string ids(BytesView value) {
  const auto row = store::decode_uuids_row(value);
  if (!row) return hex_of(value);
  std::string list;
  for (const Uuid& id : *row) list += (list.empty() ? "" : ",") + json_string(id.str());
  return JsonObject().raw("ids", "[" + list + "]").str();
}

std::string meta(BytesView value) {
  if (const auto one = store::decode_meta_u64(value)) return JsonObject().add("value", *one).str();
  const auto list = store::decode_meta_u32_list(value);
  if (!list) return hex_of(value);
  return JsonObject().raw("files", fmt::format("[{}]", fmt::join(*list, ","))).str();
}

std::string other(BytesView value, Payloads payloads) {
  if (value.empty()) return "{}";
  JsonObject out;
  out.add("bytes", value.size());
  if (payloads == Payloads::shown) out.add("hex", hex_lower(value));
  return out.str();
}

}  // namespace

std::string row_json(Keyspace keyspace, BytesView value, Payloads payloads) {
  switch (keyspace) {
    case Keyspace::meta:
      return meta(value);
    case Keyspace::queues:
      return decoded<store::QueueRow>(value, payloads);
    case Keyspace::groups:
      return decoded<store::GroupRow>(value, payloads);
    case Keyspace::partitions:
      return decoded<store::PartitionRow>(value, payloads);
    case Keyspace::partitions_by_key: {
      const auto pid = store::decode_pid_row(value);
      return pid ? JsonObject().add("pid", pid->value).str() : hex_of(value);
    }
    case Keyspace::cursors:
      return decoded<store::CursorRow>(value, payloads);
    case Keyspace::txns:
      return decoded<store::AppendRow>(value, payloads);
    case Keyspace::dlq:
      return decoded<store::DeadLetterRow>(value, payloads);
    case Keyspace::kv:
      return decoded<store::KvRow>(value, payloads);
    case Keyspace::timers:
      return decoded<store::TimerRow>(value, payloads);
    case Keyspace::traces:
      return decoded<store::TraceRow>(value, payloads);
    case Keyspace::garbage:
      return decoded<store::GarbageRow>(value, payloads);
    case Keyspace::leases_by_worker:
    case Keyspace::pending:
    case Keyspace::counters:
      return number(value);
    case Keyspace::dlq_by_pos:
      return ids(value);
    default:
      return other(value, payloads);
  }
}

}  // namespace queen::cli
