#include "cli/json_line.h"
#include "cli/row_text.h"
#include "store/keys.h"

namespace queen::cli {
namespace {

using store::Keyspace;

std::string plain(BytesView key) {
  return JsonObject().add("hex", hex_lower(key)).str();
}
JsonObject of_queue(std::string_view tenant, std::string_view queue) {
  JsonObject out;
  out.add("tenant", tenant).add("queue", queue);
  return out;
}

std::string partition_table_key(Keyspace keyspace, BytesView key) {
  if (keyspace == Keyspace::partitions || keyspace == Keyspace::garbage) {
    const auto pid = store::parse_partition_key(key);
    return pid ? JsonObject().add("pid", pid->value).str() : plain(key);
  }
  store::KeyReader reader(key);
  const std::string tenant = reader.name(), queue = reader.name();
  JsonObject out = of_queue(tenant, queue);
  if (keyspace == Keyspace::partitions_by_key)
    out.add("partition", reader.name());
  else
    out.add("pid", reader.u64());
  return reader.done() ? out.str() : plain(key);
}

std::string consumer_key(Keyspace keyspace, BytesView key) {
  if (keyspace == Keyspace::groups) {
    const auto name = store::parse_group_key(key);
    return name ? of_queue(name->tenant, name->queue).add("group", name->group).str() : plain(key);
  }
  if (keyspace == Keyspace::cursors) {
    const auto name = store::parse_cursor_key(key);
    return name ? JsonObject().add("pid", name->pid.value).add("group", name->group).str() : plain(key);
  }
  if (keyspace == Keyspace::leases_by_worker) {
    const auto name = store::parse_lease_by_worker_key(key);
    if (!name) return plain(key);
    return JsonObject()
        .add("worker", name->worker)
        .add("pid", name->pid.value)
        .add("group", name->group)
        .str();
  }
  const auto name = store::parse_pending_key(key);
  if (!name) return plain(key);
  return of_queue(name->tenant, name->queue).add("group", name->group).add("pid", name->pid.value).str();
}

std::string message_key(Keyspace keyspace, BytesView key) {
  if (keyspace == Keyspace::txns) {
    const auto name = store::parse_txns_key(key);
    return name ? JsonObject().add("pid", name->pid.value).add("baseOffset", name->base_offset).str()
                : plain(key);
  }
  if (keyspace == Keyspace::dlq) {
    const auto name = store::parse_dlq_key(key);
    return name ? of_queue(name->tenant, name->queue).add("dlqId", name->dlq_id).str() : plain(key);
  }
  const auto name = store::parse_dlq_by_pos_key(key);
  if (!name) return plain(key);
  return JsonObject().add("pid", name->pid.value).add("group", name->group).add("offset", name->offset).str();
}

std::string kv_table_key(Keyspace keyspace, BytesView key) {
  if (keyspace == Keyspace::kv) {
    const auto name = store::parse_kv_key(key);
    if (!name) return plain(key);
    return JsonObject().add("tenant", name->tenant).add("ns", name->ns).add("key", name->key).str();
  }
  const auto name = store::parse_kv_expiry_key(key);
  if (!name) return plain(key);
  return JsonObject().add("expiresAt", name->expires_at).add("version", name->version).str();
}

std::string trace_table_key(Keyspace keyspace, BytesView key) {
  if (keyspace == Keyspace::traces) {
    const auto name = store::parse_trace_key(key);
    if (!name) return plain(key);
    JsonObject out;
    out.add("tenant", name->tenant);
    if (name->pid) out.add("pid", name->pid->value);
    return out.add("transactionId", name->transaction_id).add("sequence", name->sequence).str();
  }
  if (keyspace == Keyspace::trace_names) {
    const auto name = store::parse_trace_name_key(key);
    if (!name) return plain(key);
    return JsonObject()
        .add("tenant", name->tenant)
        .add("name", name->name)
        .add("createdAt", name->created_at)
        .add("id", name->id)
        .str();
  }
  const auto name = store::parse_trace_expiry_key(key);
  if (!name) return plain(key);
  return JsonObject().add("createdAt", name->created_at).add("id", name->id).str();
}

std::string counter_table_key(BytesView key) {
  const auto name = store::parse_counter_key(key);
  if (!name) return plain(key);
  return JsonObject()
      .add("scope", static_cast<unsigned>(name->scope))
      .add("id", hex_lower(name->id))
      .add("counter", static_cast<unsigned>(name->counter))
      .str();
}

}  // namespace

std::string key_json(Keyspace keyspace, BytesView key) {
  switch (keyspace) {
    case Keyspace::meta:
      return JsonObject().add("name", key).str();
    case Keyspace::queues: {
      const auto name = store::parse_queue_key(key);
      return name ? of_queue(name->tenant, name->queue).str() : plain(key);
    }
    case Keyspace::partitions:
    case Keyspace::garbage:
    case Keyspace::partitions_by_key:
    case Keyspace::queue_partitions:
      return partition_table_key(keyspace, key);
    case Keyspace::groups:
    case Keyspace::cursors:
    case Keyspace::leases_by_worker:
    case Keyspace::pending:
      return consumer_key(keyspace, key);
    case Keyspace::txns:
    case Keyspace::dlq:
    case Keyspace::dlq_by_pos:
      return message_key(keyspace, key);
    case Keyspace::kv:
    case Keyspace::kv_expiry:
      return kv_table_key(keyspace, key);
    case Keyspace::traces:
    case Keyspace::trace_names:
    case Keyspace::trace_expiry:
      return trace_table_key(keyspace, key);
    case Keyspace::counters:
      return counter_table_key(key);
    case Keyspace::flags:
      return JsonObject().add("name", store::parse_flag_key(key).value_or(hex_lower(key))).str();
    default:
      return plain(key);
  }
}

}  // namespace queen::cli
