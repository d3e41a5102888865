#include "app/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "sink/settings_table.h"

namespace queen::app {
namespace {

using config::Values;

constexpr const char* kEncryptionKey = "QUEEN_ENCRYPTION_KEY";
constexpr std::uint64_t kReserveBytes = 64ULL << 20;  // HD-30

Error fatal(std::string text) {
  return Error{Errc::invalid, std::move(text)};
}

// `ordinal` is the trailing number of HOSTNAME plus 1 (configuration.md 3).
Result<std::uint64_t> node_id(const std::string& raw, const std::string& host_name) {
  const std::string value = lower_ascii(trim(raw));
  std::string digits = value;
  std::uint64_t add = 0;
  if (value == "ordinal") {
    digits = host_name.substr(host_name.find_last_not_of("0123456789") + 1);
    add = 1;
  }
  std::uint64_t id = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size() || id + add == 0) {
    return fatal(fmt::format(
        "QUEEN_RAFT_NODE_ID={} is not a number from 1, nor ordinal with a HOSTNAME that ends in a number",
        raw));
  }
  return id + add;
}

// What must not be guessed (configuration.md 1.3).
Status check_crosswise(const Values& values) {
  const std::string replicator = lower_ascii(trim(values.text("QUEEN_RAFT_REPLICATOR")));
  if (replicator == "raft" || replicator == "openraft") {
    return fatal(
        fmt::format("QUEEN_RAFT_REPLICATOR={}: this build has the local replicator only", replicator));
  }
  if (!replicator.empty() && replicator != "local") {
    return fatal(fmt::format("QUEEN_RAFT_REPLICATOR={} is not a replicator: use local", replicator));
  }
  if (values.is_set("QUEEN_RAFT_PEERS")) {
    return fatal(fmt::format("QUEEN_RAFT_PEERS={} is set, but the local replicator has no peers",
                             values.text("QUEEN_RAFT_PEERS")));
  }
  if (values.flag("QUEEN_TENANCY_HEADER") && !values.flag("QUEEN_KV_TRUSTED_PROXY")) {
    return fatal(
        "QUEEN_TENANCY_HEADER is on without QUEEN_KV_TRUSTED_PROXY: whoever reaches this port could name any "
        "tenant");
  }
  if (values.flag("JWT_ENABLED")) {
    return fatal("JWT_ENABLED is on, and this build has no authentication: it would serve everybody");
  }
  const std::string bind = trim(values.text("QUEEN_BIND_ADDR"));
  const bool one_colon = std::count(bind.begin(), bind.end(), ':') == 1;
  if (bind.empty() || one_colon || bind.find(']') != std::string::npos) {
    return fatal(fmt::format(
        "QUEEN_BIND_ADDR={} must be an address or a host name without a port (the port is PORT)", bind));
  }
  if (trim(values.text("QUEEN_RAFT_DIR")).empty())
    return fatal("QUEEN_RAFT_DIR= is empty: it must name the data directory");
  return {};
}

// Unset: enough that planning never runs dry.
std::uint64_t admission_bytes(const Values& values) {
  const auto set = static_cast<std::uint64_t>(values.integer("QUEEN_RAFT_ADMIT_MAX_MB")) << 20;
  if (values.is_set("QUEEN_RAFT_ADMIT_MAX_MB")) return set;
  const auto pipeline = static_cast<std::uint64_t>(values.integer("QUEEN_RAFT_PIPELINE"));
  const auto batch = static_cast<std::uint64_t>(values.integer("QUEEN_RAFT_BATCH_MAX_BYTES"));
  return std::max(set, (pipeline + 2) * batch);
}

broker::RetentionSettings retention_settings(const Values& values) {
  constexpr std::int64_t kSecondUs = 1'000'000;
  broker::RetentionSettings out;
  out.interval_us = values.integer("RETENTION_INTERVAL") * 1000;
  out.partitions_per_s = values.integer("QUEEN_RAFT_RETENTION_SCAN_PER_S");
  out.batch_appends = static_cast<std::size_t>(values.integer("RETENTION_BATCH_SIZE"));
  out.txn_window_min_us = values.integer("QUEEN_RAFT_TXN_WINDOW_MIN_S") * kSecondUs;
  out.rows_window = values.flag("QUEEN_RAFT_ROWS_WINDOW");
  const bool cleanup = values.flag("QUEEN_PARTITION_CLEANUP_ENABLED");
  out.cleanup_us = cleanup ? values.integer("PARTITION_CLEANUP_DAYS") * 86'400 * kSecondUs : 0;
  return out;
}

constexpr std::int64_t kFlushMsMin = 1000, kFlushMsDefault = 60'000;

broker::MeterSettings meter_settings(const Values& values) {
  broker::MeterSettings out;
  const std::int64_t flush_ms = values.integer("METRICS_FLUSH_MS");
  out.flush_us = (flush_ms < kFlushMsMin ? kFlushMsDefault : flush_ms) * 1000;
  out.node_hours = values.integer("QUEEN_DASH_NODE_RETENTION_H");
  out.queue_hours = values.integer("QUEEN_DASH_QUEUE_RETENTION_H");
  out.queue_rows_max = static_cast<std::uint64_t>(values.integer("QUEEN_DASH_MAX_QUEUE_ROWS"));
  return out;
}

broker::TimerSettings timer_settings(const Values& values) {
  broker::TimerSettings out;
  out.tick_us = values.integer("QUEEN_RAFT_TIMER_TICK_MS") * 1000;
  out.fire_batch = static_cast<std::size_t>(values.integer("QUEEN_RAFT_TIMER_FIRE_BATCH"));
  out.fire_bytes_max = static_cast<std::uint64_t>(values.integer("QUEEN_RAFT_TIMER_FIRE_MAX_BYTES"));
  out.backoff_min_us = values.integer("QUEEN_SWEEPER_BACKOFF_MIN_MS") * 1000;
  out.backoff_max_us = values.integer("QUEEN_SWEEPER_BACKOFF_MAX_MS") * 1000;
  out.transient_backoff_us = values.integer("QUEEN_SWEEPER_TRANSIENT_BACKOFF_MS") * 1000;
  out.attempts_max = static_cast<std::uint32_t>(values.integer("QUEEN_SWEEPER_MAX_ATTEMPTS"));
  return out;
}

broker::Settings broker_settings(const Values& values) {
  broker::Settings out;
  out.directory = trim(values.text("QUEEN_RAFT_DIR"));
  out.logs.segment_bytes = static_cast<std::uint64_t>(values.integer("QUEEN_RAFT_SEGMENT_BYTES"));
  out.logs.layout_if_new.shards = static_cast<std::uint32_t>(values.integer("QUEEN_QLOG_SHARDS"));
  out.logs.layout_if_new.lanes = static_cast<std::uint32_t>(values.integer("QUEEN_QLOG_LANES"));
  out.logs.entry_copies = values.text("QUEEN_QLOG_ENTRY_LAYOUT") == "copies";
  out.logs.precreate = values.flag("QUEEN_QLOG_PRECREATE");
  out.logs.prealloc_bytes = static_cast<std::uint64_t>(values.integer("QUEEN_RAFT_QLOG_PREALLOC_KB")) * 1024;
  out.logs.prealloc_min_syncs =
      static_cast<std::uint32_t>(values.integer("QUEEN_RAFT_QLOG_PREALLOC_MIN_SYNCS"));
  out.logs.fd_cache = static_cast<std::uint32_t>(values.integer("QUEEN_RAFT_QLOG_FD_CACHE"));
  out.logs.drop_behind_bytes = static_cast<std::uint64_t>(values.integer("QUEEN_QLOG_DROP_BEHIND_MB")) << 20;
  out.scrub_bytes_per_second = static_cast<std::uint64_t>(values.integer("QUEEN_QLOG_SCRUB_MB_PER_S")) << 20;
  out.logs.directories = values.flag("QUEEN_QLOG_DIRX");
  out.upkeep.seal_age_us = values.integer("QUEEN_QLOG_SEAL_AGE_S") * 1'000'000;
  out.upkeep.reclaim = values.flag("QUEEN_QLOG_RECLAIM");
  if (!values.text("QUEEN_QLOG_COMPACT_MIN_DEAD_PCT").empty())
    out.upkeep.min_dead_pct = values.percent("QUEEN_QLOG_COMPACT_MIN_DEAD_PCT");
  out.map_bytes = static_cast<std::uint64_t>(values.integer("QUEEN_RAFT_MAP_BYTES"));
  out.store_verify = values.flag("QUEEN_STORE_VERIFY");
  out.store_verify_reads = values.flag("QUEEN_STORE_VERIFY_READS");
  out.scrub_every_us = values.integer("QUEEN_STORE_SCRUB_EVERY_S") * 1'000'000;
  out.scrub_rows_per_s = static_cast<std::uint64_t>(values.integer("QUEEN_STORE_SCRUB_ROWS_PER_S"));
  out.durable_every_us = values.integer("QUEEN_RAFT_DURABLE_EVERY_MS") * 1000;
  out.durable_every_bytes = static_cast<std::uint64_t>(values.integer("QUEEN_RAFT_DURABLE_EVERY_BYTES"));
  out.batch_commands_max = static_cast<std::size_t>(values.integer("QUEEN_RAFT_BATCH_MAX_CMDS"));
  out.batch_bytes_max = static_cast<std::uint64_t>(values.integer("QUEEN_RAFT_BATCH_MAX_BYTES"));
  out.pipeline = static_cast<std::size_t>(values.integer("QUEEN_RAFT_PIPELINE"));
  out.command_queue_depth = static_cast<std::size_t>(values.integer("QUEEN_RAFT_COMMAND_QUEUE_DEPTH"));
  out.entry_bytes_max = static_cast<std::uint64_t>(values.integer("QUEEN_RAFT_ENTRY_MAX_BYTES"));
  out.zstd_level = static_cast<int>(values.integer("QUEEN_RAFT_QLOG_ZSTD_LEVEL"));
  out.kv_sweep_us = values.integer("QUEEN_RAFT_KV_SWEEP_MS") * 1000;
  out.kv_sweep_limit = static_cast<std::uint32_t>(values.integer("QUEEN_RAFT_KV_SWEEP_LIMIT"));
  out.retention = retention_settings(values);
  out.meter = meter_settings(values);
  out.traces.retention_us = values.integer("QUEEN_RAFT_TRACE_RETENTION_S") * 1'000'000;
  out.timers = timer_settings(values);
  out.traces.trim_limit = static_cast<std::uint32_t>(values.integer("QUEEN_RAFT_TRACE_TRIM_LIMIT"));
  out.fsync_threads = static_cast<int>(values.integer("QUEEN_QLOG_FSYNC_THREADS"));
  out.disk_high_pct = values.percent("QUEEN_RAFT_DISK_HIGH_PCT");
  out.admit_bytes_max = admission_bytes(values);
  out.admit_hold_us = values.integer("QUEEN_RAFT_ADMIT_HOLD_MS") * 1000;
  out.wall_clock = lower_ascii(trim(values.text("QUEEN_RAFT_CLOCK"))) == "wall";
  out.disk_check_us = values.integer("QUEEN_RAFT_DISK_CHECK_MS") * 1000;
  out.reserve_bytes = kReserveBytes;
  out.disk_low_pct = std::min(values.percent("QUEEN_RAFT_DISK_LOW_PCT"), out.disk_high_pct);
  return out;
}

api::ApiSettings api_settings(const Values& values) {
  api::ApiSettings out;
  out.default_timeout_ms =
      values.integer(values.is_set("DEFAULT_TIMEOUT") ? "DEFAULT_TIMEOUT" : "POP_DEFAULT_TIMEOUT_MS");
  out.stmt_timeout_ms = values.integer("QUEEN_STMT_TIMEOUT_MS");
  const std::string mode = lower_ascii(trim(values.text("DEFAULT_SUBSCRIPTION_MODE")));
  const bool fresh = mode == "new" || mode == "new-only" || mode == "new_only" || mode == "newonly";
  out.default_subscription = fresh ? machine::Subscription::Mode::fresh : machine::Subscription::Mode::all;
  out.tenancy_header = values.flag("QUEEN_TENANCY_HEADER");
  out.kv_value_bytes_max = values.integer("QUEEN_KV_MAX_VALUE_BYTES");
  out.kv_require_grant = values.flag(values.is_set("QUEEN_KV_REQUIRE_GRANT") ? "QUEEN_KV_REQUIRE_GRANT"
                                                                             : "QUEEN_TENANCY_HEADER");
  out.kv_reads = {values.integer("QUEEN_KV_READ_RATE"), values.integer("QUEEN_KV_READ_BURST")};
  out.kv_writes = {values.integer("QUEEN_KV_WRITE_RATE"), values.integer("QUEEN_KV_WRITE_BURST")};
  out.ephemeral_require_grant =
      values.flag(values.is_set("QUEEN_EPHEMERAL_REQUIRE_GRANT") ? "QUEEN_EPHEMERAL_REQUIRE_GRANT"
                                                                 : "QUEEN_TENANCY_HEADER");
  out.ephemeral_messages = {values.integer("QUEEN_EPHEMERAL_RATE"), values.integer("QUEEN_EPHEMERAL_BURST")};
  out.ephemeral.node_bytes_max = values.integer("QUEEN_EPHEMERAL_MAX_BYTES");
  out.ephemeral.queue_bytes_max = values.integer("QUEEN_EPHEMERAL_QUEUE_MAX_BYTES");
  out.ephemeral.queue_length_max = values.integer("QUEEN_EPHEMERAL_QUEUE_MAX_LENGTH");
  out.ephemeral.lease_seconds = values.integer("QUEEN_EPHEMERAL_LEASE_S");
  out.ephemeral.retry_limit = values.integer("QUEEN_EPHEMERAL_RETRY_LIMIT");
  out.ephemeral.idle_seconds = values.integer("QUEEN_EPHEMERAL_IMPLICIT_IDLE_S");
  out.tenants_max = static_cast<std::size_t>(values.integer("QUEEN_KV_MAX_TENANTS"));
  out.kv_quota_release_percent = values.integer("QUEEN_KV_QUOTA_RELEASE_PERCENT");
  out.kv_quota_hot_percent = values.integer("QUEEN_KV_QUOTA_HOT_PERCENT");
  out.partitions_listed_max = static_cast<std::size_t>(values.integer("QUEEN_DASH_SIZES_MAX"));
  out.kv_ops_max = static_cast<std::uint32_t>(values.integer("QUEEN_KV_MAX_OPS_PER_CALL"));
  out.kv_keys_max = static_cast<std::uint32_t>(values.integer("QUEEN_KV_MAX_KEYS_PER_CALL"));
  out.timers_horizon_s = values.integer("QUEEN_TIMERS_MAX_HORIZON_S");
  out.timers_ops_max = static_cast<std::uint32_t>(values.integer("QUEEN_TIMERS_MAX_OPS_PER_CALL"));
  out.timers_payload_bytes_max = values.integer("QUEEN_TIMERS_MAX_PAYLOAD_BYTES");
  return out;
}

http::ServerSettings http_settings(const Values& values, unsigned cores) {
  http::ServerSettings out;
  out.bind_address = trim(values.text("QUEEN_BIND_ADDR"));
  out.port = static_cast<std::uint16_t>(values.integer("PORT"));
  out.threads = static_cast<int>(std::clamp(cores, 1U, 8U));
  out.body_bytes_max = static_cast<std::uint64_t>(values.integer("QUEEN_MAX_BODY_BYTES"));
  out.write_timeout_us = values.integer("QUEEN_HTTP_WRITE_TIMEOUT_MS") * 1000;
  return out;
}

// Read apart from the table's values, so that no copy of the key stays anywhere but in the cipher.
Status read_encryption_key(const config::Lookup& lookup, NodeSettings& out) {
  auto raw = lookup(kEncryptionKey);
  if (!raw) return {};
  std::string key = trim(*raw);
  auth::wipe(*raw);
  if (key.empty()) return {};
  out.encryption_key_shown = fmt::format("<set:{} chars>", key.size());
  auto cipher = auth::PayloadCipher::from_hex(key);
  auth::wipe(key);
  if (!cipher) return fatal(fmt::format("{} is not a key: {}", kEncryptionKey, cipher.error().what));
  out.cipher = std::move(*cipher);
  out.api.cipher = out.broker.cipher = out.cipher.get();
  return {};
}

Result<bool> sink_enabled(const config::Lookup& lookup) {
  const std::string raw = trim(lookup("QUEEN_S3_EMBEDDED").value_or(""));
  if (raw.empty()) return false;
  const auto value = config::parse_boolean(raw);
  if (!value)
    return fatal(
        fmt::format("QUEEN_S3_EMBEDDED={} is not a boolean: use true, 1, yes, on or false, 0, no, off", raw));
  return *value;
}

std::vector<std::pair<std::string, std::string>> shown_by_heading(const Values& values) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const config::Row& row : config::engine_rows()) {
    if (row.kind == config::Kind::own) continue;  // has a line of its own
    if (out.empty() || out.back().first != row.section) out.emplace_back(row.section, "");
    auto& line = out.back().second;
    if (!line.empty()) line += ' ';
    line += fmt::format("{}={}", row.name, config::masked(row, values.text(row.name)));
  }
  return out;
}

}  // namespace

std::vector<config::Row> all_rows() {
  const auto engine = config::engine_rows();
  std::vector<config::Row> out(engine.begin(), engine.end());
  for (const auto& row : sink::kSettingRows) {
    const bool unset = std::string_view(row.fallback) == "unset";
    config::Row added{row.name, config::Kind::own, unset ? "" : row.fallback};
    added.section = "S3 sink";
    added.help = row.help;
    added.choices = row.range;
    out.push_back(added);
  }
  return out;
}

Result<NodeSettings> read_settings(const config::Lookup& lookup, const std::vector<std::string>& names,
                                   unsigned cores, const std::string& host_name, std::uint64_t random_bits) {
  auto values = Values::read(config::engine_rows(), lookup);
  if (!values) return std::move(values).error();
  if (auto crosswise = check_crosswise(*values); !crosswise) return std::move(crosswise).error();
  NodeSettings out;
  out.log_level = values->text("LOG_LEVEL");
  out.log_json = values->flag("QUEEN_LOG_JSON");
  out.http = http_settings(*values, cores);
  out.api = api_settings(*values);
  out.broker = broker_settings(*values);
  if (auto key = read_encryption_key(lookup, out); !key) return std::move(key).error();
  out.test_faults = trim(values->text("QUEEN_TEST_FAULTS"));
  out.sync_delay_us = values->integer("QUEEN_TEST_FSYNC_DELAY_MS") * 1000;
  out.warnings = values->warnings();
  if (const auto ms = values->integer("METRICS_FLUSH_MS"); ms < kFlushMsMin)
    out.warnings.push_back(
        {"METRICS_FLUSH_MS", std::to_string(ms), fmt::format("below 1000; {} is used", kFlushMsDefault)});
  out.api.node_name = lookup("HOSTNAME").value_or(host_name);
  out.shown = shown_by_heading(*values);

  std::vector<std::string> known;
  for (const auto& row : all_rows()) known.emplace_back(row.name);
  // The sink names them itself: two are ignored, one stops the boot.
  for (const char* name : {"QUEEN_S3_LISTEN", "QUEEN_S3_LOG_FORMAT", "QUEEN_S3_PARTITIONS"})
    known.emplace_back(name);
  for (auto& warning : config::unknown_names(names, known)) out.warnings.push_back(std::move(warning));

  const auto id = node_id(values->text("QUEEN_RAFT_NODE_ID"), lookup("HOSTNAME").value_or(host_name));
  if (!id) return id.error();
  const auto enabled = sink_enabled(lookup);
  if (!enabled) return enabled.error();
  if (!*enabled && !trim(lookup("QUEEN_S3_QUEUES").value_or("")).empty()) {
    out.warnings.push_back({"QUEEN_S3_QUEUES", lookup("QUEEN_S3_QUEUES").value_or(""),
                            "QUEEN_S3_EMBEDDED is off: this node copies nothing"});
  }
  if (*enabled && trim(lookup("QUEEN_S3_QUEUES").value_or("")).empty()) {
    out.warnings.push_back(
        {"QUEEN_S3_EMBEDDED", "true", "QUEEN_S3_QUEUES names no queue: this node copies nothing"});
  }
  if (*enabled) {
    auto sink = sink::read_settings(lookup, {*id, cores, host_name, random_bits});
    if (!sink) return std::move(sink).error();
    out.sink = std::move(*sink);
    out.ca_file = lookup("SSL_CERT_FILE").value_or("");
  }
  return out;
}

}  // namespace queen::app
