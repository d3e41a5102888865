// The rows; docs/configuration.md is made from them.
#include <array>

#include "config/settings.h"

namespace queen::config {
namespace {

constexpr std::int64_t kMax = INT64_MAX;
constexpr const char* kServer = "Server";
constexpr const char* kNode = "Node and data directory";
constexpr const char* kPlanner = "Planner";
constexpr const char* kStore = "Store and disk";
constexpr const char* kLogs = "Queue logs";
constexpr const char* kRetention = "Retention";
constexpr const char* kState = "Key/value store";
constexpr const char* kMetrics = "Metrics";
constexpr const char* kTests = "Tests only";

constexpr std::array kRows = {
    Row{"PORT", Kind::integer, "6632", 0, 65535, "", kServer, "HTTP port; 0 lets the system choose one."},
    Row{"QUEEN_BIND_ADDR", Kind::text, "0.0.0.0", 0, 0, "", kServer,
        "Address or host name that the HTTP listener binds, without a port."},
    Row{"QUEEN_MAX_BODY_BYTES", Kind::integer, "67108864", 1, 1LL << 32, "bytes", kServer,
        "Largest request body; a larger one is answered 413."},
    Row{"QUEEN_HTTP_WRITE_TIMEOUT_MS", Kind::integer, "30000", 100, 3'600'000, "ms", kServer,
        "A connection whose peer reads nothing of an answer for this long is closed."},
    Row{"QUEEN_STMT_TIMEOUT_MS", Kind::integer, "30000", 1, 60'000, "ms", kServer,
        "Deadline of acks and other commands."},
    Row{"DEFAULT_TIMEOUT", Kind::integer, "30000", 1, kMax, "ms", kServer,
        "Default wait of a long poll and deadline of a push; wins over POP_DEFAULT_TIMEOUT_MS."},
    Row{"POP_DEFAULT_TIMEOUT_MS", Kind::integer, "30000", 1, kMax, "ms", kServer,
        "Older name of DEFAULT_TIMEOUT."},
    Row{"DEFAULT_SUBSCRIPTION_MODE", Kind::text, "new", 0, 0, "", kServer,
        "Where a consumer group starts whose first pop names no mode: new, or all for any other text."},
    Row{"QUEEN_DASH_SIZES_MAX", Kind::integer, "100000", 1, 10'000'000, "partitions", kServer,
        "Most partitions that one answer about a queue lists, or that a search for the busiest looks at."},
    Row{"LOG_LEVEL", Kind::text, "info", 0, 0, "", kServer,
        "Log filter: a level, and target=level items, comma separated."},
    Row{"QUEEN_LOG_JSON", Kind::boolean, "false", 0, 0, "", kServer,
        "One JSON object per log line instead of text."},
    Row{"QUEEN_TENANCY_HEADER", Kind::boolean, "false", 0, 0, "", kServer,
        "Take the tenant of a request from the header x-queen-tenant; needs QUEEN_KV_TRUSTED_PROXY."},
    Row{"QUEEN_KV_TRUSTED_PROXY", Kind::boolean, "false", 0, 0, "", kServer,
        "States that only a trusted proxy reaches this listener, so that its tenant header may be believed."},
    Row{"JWT_ENABLED", Kind::boolean, "false", 0, 0, "", kServer,
        "On stops the boot: this build has no authentication, and an open port must not look guarded."},
    Row{"QUEEN_RAFT_REPLICATOR", Kind::text, "local", 0, 0, "", kNode,
        "local: one node without consensus, the only replicator of this build."},
    Row{"QUEEN_RAFT_DIR", Kind::text, "/var/lib/queen/raft", 0, 0, "", kNode,
        "Data directory of this node; locked while in use."},
    Row{"QUEEN_RAFT_NODE_ID", Kind::text, "1", 0, 0, "", kNode,
        "Number of this node from 1, or ordinal: the trailing number of HOSTNAME plus 1."},
    Row{"QUEEN_RAFT_PEERS", Kind::text, "", 0, 0, "", kNode,
        "Members of a cluster; refused by the local replicator."},
    Row{"QUEEN_RAFT_PIPELINE", Kind::integer, "8", 1, 1024, "entries", kPlanner,
        "Entries planned and not yet applied at one time."},
    Row{"QUEEN_RAFT_BATCH_MAX_CMDS", Kind::integer, "4096", 1, 1 << 20, "commands", kPlanner,
        "Commands that one planning cycle takes."},
    Row{"QUEEN_RAFT_BATCH_MAX_BYTES", Kind::integer, "4194304", 1, 1LL << 30, "bytes", kPlanner,
        "Estimated bytes that one planning cycle takes."},
    Row{"QUEEN_RAFT_ENTRY_MAX_BYTES", Kind::integer, "100663296", 1, 100'663'296, "bytes", kPlanner,
        "Largest part of a push that goes to one partition."},
    Row{"QUEEN_RAFT_COMMAND_QUEUE_DEPTH", Kind::integer, "16384", 1, 1 << 24, "commands", kPlanner,
        "Commands waiting to be planned; above it a call waits within its own deadline, and above twice as "
        "many "
        "it is refused with 429."},
    Row{"QUEEN_RAFT_ADMIT_MAX_MB", Kind::integer, "128", 0, 1 << 20, "MiB", kPlanner,
        "Writes waiting to be planned; what does not fit waits. 0 = no limit; unset: at least (pipeline + 2) "
        "batches."},
    Row{"QUEEN_RAFT_ADMIT_HOLD_MS", Kind::integer, "15000", 0, 60'000, "ms", kPlanner,
        "How long a write waits for its turn, a quarter more or less, before it is answered 429."},
    Row{"QUEEN_RAFT_CLOCK", Kind::text, "monotonic", 0, 0, "", kPlanner,
        "wall: stamps follow the wall clock alone; anything else: they go on at real speed when it jumps."},
    Row{"QUEEN_RAFT_DURABLE_EVERY_MS", Kind::integer, "1000", 1, 3'600'000, "ms", kStore,
        "Time between store checkpoints; bounds what a restart replays."},
    Row{"QUEEN_RAFT_DURABLE_EVERY_BYTES", Kind::integer, "268435456", 1, kMax, "bytes", kStore,
        "Log bytes after which a checkpoint is taken earlier."},
    Row{"QUEEN_RAFT_MAP_BYTES", Kind::integer, "0", 0, kMax, "bytes", kStore,
        "Address space of the checkpoint file's map; 0 = 64 GiB, grown with use."},
    Row{"QUEEN_STORE_VERIFY", Kind::boolean, "false", 0, 0, "", kStore,
        "Verify every row of the store once more when it is opened, and log a report."},
    Row{"QUEEN_STORE_VERIFY_READS", Kind::boolean, "false", 0, 0, "", kStore,
        "Verify the checksum of every row that is read; a damaged one ends the process."},
    Row{"QUEEN_STORE_SCRUB_EVERY_S", Kind::integer, "21600", 0, 31'536'000, "s", kStore,
        "Period of the scrub that verifies every row of the checkpoint file and of memory; 0 = off."},
    Row{"QUEEN_STORE_SCRUB_ROWS_PER_S", Kind::integer, "2000", 1, 1'000'000, "rows", kStore,
        "Rows that the scrub verifies in a second."},
    Row{"QUEEN_RAFT_DISK_HIGH_PCT", Kind::percent, "85", 0, 0, "%", kStore,
        "Use of the volume at which writes that need space are answered 507."},
    Row{"QUEEN_RAFT_DISK_CHECK_MS", Kind::integer, "100", 10, 60'000, "ms", kStore,
        "How often the use of the volume is looked at."},
    Row{"QUEEN_RAFT_DISK_LOW_PCT", Kind::percent, "80", 0, 0, "%", kStore,
        "Use of the volume below which they are taken again."},
    Row{"QUEEN_RAFT_SEGMENT_BYTES", Kind::integer, "67108864", 33, 1LL << 40, "bytes", kLogs,
        "Size at which a log file is sealed and the next one begun."},
    Row{"QUEEN_RAFT_QLOG_ZSTD_LEVEL", Kind::integer, "1", 0, 19, "", kLogs,
        "zstd level of message payloads in the log; 0 stores them raw."},
    Row{"QUEEN_QLOG_SHARDS", Kind::integer, "0", 0, 4096, "logs", kLogs,
        "0: one log per queue; K: all queues share K logs. Read when the directory is made."},
    Row{"QUEEN_QLOG_LANES", Kind::integer, "1", 1, 64, "logs", kLogs,
        "Logs per queue, by partition. Read when the directory is made."},
    Row{"QUEEN_QLOG_ENTRY_LAYOUT", Kind::choice, "stub", 0, 0, "", kLogs,
        "stub: an entry is whole in one log and a stub in the others; copies: whole in each.", "stub,copies"},
    Row{"QUEEN_QLOG_FSYNC_THREADS", Kind::integer, "32", 1, 1024, "threads", kLogs,
        "Threads that sync the touched logs of a group in parallel."},
    Row{"QUEEN_QLOG_PRECREATE", Kind::on_switch, "on", 0, 0, "", kLogs,
        "Make the next log file before the active one is full."},
    Row{"QUEEN_RAFT_QLOG_PREALLOC_KB", Kind::integer, "1024", 0, 1 << 20, "KiB", kLogs,
        "Zeros written ahead in a busy log, so that a sync need not commit its length; 0 = off."},
    Row{"QUEEN_RAFT_QLOG_PREALLOC_MIN_SYNCS", Kind::integer, "64", 0, 1 << 30, "syncs", kLogs,
        "Syncs that a log needs before it writes zeros ahead; 0 = no gate."},
    Row{"QUEEN_RAFT_QLOG_FD_CACHE", Kind::integer, "256", 0, 1 << 20, "files", kLogs,
        "Log files kept open for reading; 0 = none."},
    Row{"QUEEN_QLOG_SEAL_AGE_S", Kind::integer, "600", 0, 1 << 30, "s", kLogs,
        "Age of the oldest data at which a log file is sealed although it is not full, so that it can be "
        "freed; 0 "
        "= never by age."},
    Row{"QUEEN_QLOG_RECLAIM", Kind::on_switch, "on", 0, 0, "", kLogs,
        "Free the files of messages that are gone; off keeps every sealed file, for measurement only."},
    Row{"QUEEN_QLOG_COMPACT_MIN_DEAD_PCT", Kind::percent, "", 0, 0, "%", kLogs,
        "Dead share of a sealed file's message bytes at which it is rewritten; unset: any in the log of one "
        "queue, 50 in a shared log."},
    Row{"QUEEN_QLOG_DROP_BEHIND_MB", Kind::integer, "0", 0, 1 << 20, "MiB", kLogs,
        "Synced log bytes this far behind a log's tail leave the page cache; 0 = never."},
    Row{"QUEEN_QLOG_SCRUB_MB_PER_S", Kind::integer, "8", 0, 1 << 20, "MiB/s", kLogs,
        "Pace at which sealed log files are read again and verified; 0 = off."},
    Row{"QUEEN_QLOG_DIRX", Kind::on_switch, "on", 0, 0, "", kLogs,
        "Keep directories over sealed log files, which make reads of old offsets fast."},
    Row{"RETENTION_INTERVAL", Kind::integer, "5000", 1, 86'400'000, "ms", kRetention,
        "Least time between the starts of two rounds over all partitions."},
    Row{"RETENTION_BATCH_SIZE", Kind::integer, "1000", 1, 100'000, "appends", kRetention,
        "Appends of one partition that one step moves; what is left is judged again 40 ms later."},
    Row{"QUEEN_RAFT_RETENTION_SCAN_PER_S", Kind::integer, "50000", 1, 1'000'000'000, "partitions", kRetention,
        "Partitions that the scanner looks at in a second."},
    Row{"QUEEN_RAFT_TXN_WINDOW_MIN_S", Kind::integer, "900", 1, 1'000'000'000, "s", kRetention,
        "Least time for which the transaction ids of a message are known, whatever its queue says."},
    Row{"QUEEN_RAFT_ROWS_WINDOW", Kind::on_switch, "on", 0, 0, "", kRetention,
        "A message's row leaves RAM when the dedup window has passed; off keeps it as long as the message."},
    Row{"PARTITION_CLEANUP_DAYS", Kind::integer, "30", 1, 36'500, "days", kRetention,
        "An empty partition that was not written for so long is removed."},
    Row{"QUEEN_PARTITION_CLEANUP_ENABLED", Kind::on_switch, "on", 0, 0, "", kRetention,
        "Off keeps idle partitions."},
    Row{"QUEEN_RAFT_KV_SWEEP_MS", Kind::integer, "1000", 1, 3'600'000, "ms", kState,
        "How often expired keys are removed."},
    Row{"QUEEN_RAFT_KV_SWEEP_LIMIT", Kind::integer, "512", 1, 4096, "rows", kState,
        "Expired keys removed in one step."},
    Row{"QUEEN_RAFT_TRACE_RETENTION_S", Kind::integer, "604800", 1, 1'000'000'000, "s", kState,
        "Age at which traces are dropped."},
    Row{"QUEEN_RAFT_TRACE_TRIM_LIMIT", Kind::integer, "512", 1, 4096, "traces", kState,
        "Traces dropped in one step."},
    Row{"QUEEN_KV_MAX_VALUE_BYTES", Kind::integer, "65536", 1, 64LL << 20, "bytes", kState,
        "Largest value of a key."},
    Row{"QUEEN_KV_MAX_OPS_PER_CALL", Kind::integer, "256", 1, 256, "operations", kState,
        "Operations of one KV call."},
    Row{"QUEEN_KV_MAX_KEYS_PER_CALL", Kind::integer, "1024", 1, 4096, "keys", kState,
        "Keys that one KV call may name or list."},
    Row{"METRICS_FLUSH_MS", Kind::integer, "60000", 0, 86'400'000, "ms", kMetrics,
        "Metrics bucket: how often the node writes what it counted; below 1000 the default is used."},
    Row{"QUEEN_DASH_NODE_RETENTION_H", Kind::integer, "168", 1, 87'600, "h", kMetrics,
        "Hours for which the figures of the node are kept."},
    Row{"QUEEN_DASH_QUEUE_RETENTION_H", Kind::integer, "24", 1, 87'600, "h", kMetrics,
        "Hours for which the figures of the queues are kept."},
    Row{"QUEEN_DASH_MAX_QUEUE_ROWS", Kind::integer, "500000", 1, 1'000'000'000, "rows", kMetrics,
        "Most rows of queues that are kept, one for each queue in use and bucket; the oldest go first."},
    Row{"QUEEN_TEST_FAULTS", Kind::text, "", 0, 0, "", kTests,
        "point[:n],...: the process kills itself the n-th time it reaches the point. Unset outside tests."},
    Row{"QUEEN_TEST_FSYNC_DELAY_MS", Kind::integer, "0", 0, 60'000, "ms", kTests,
        "Every sync of a log takes this much longer. 0 outside tests."},
};

}  // namespace

std::span<const Row> engine_rows() {
  return kRows;
}

}  // namespace queen::config
