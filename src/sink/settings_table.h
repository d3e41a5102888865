// The sink's settings as rows: the parser, `queen --help` and docs/configuration.md come from this table.
#pragma once

#include <cstdint>
#include <string_view>

namespace queen::sink {

enum class SettingScope : std::uint8_t {
  node,   // shared by every sink of the node
  queues  // of one sink; any of them without QUEEN_S3_QUEUES stops the boot
};

struct SettingRow {
  const char* name;   // of the variable
  const char* field;  // of a tenant's document; blank when it has none. Of a node-wide row: refused by name
  const char* type;   // `text`, `bool`, `int`, `one of`
  const char* fallback;  // as a user would write it; `required` and `unset` are no values
  const char* range;     // for people: `1..=64`, or the accepted values
  const char* help;      // one sentence
  SettingScope scope;
  std::int64_t min;  // of an int; 0 and 0 otherwise
  std::int64_t max;
};

inline constexpr SettingRow kSettingRows[] = {
    {"QUEEN_S3_EMBEDDED", "", "bool", "false", "true or false", "Starts the S3 sink on this node.",
     SettingScope::node, 0, 0},
    {"QUEEN_S3_THREADS", "", "int", "a quarter of the cores, 1 or 2", "1..=64",
     "Threads that build objects, shared by the sinks of every tenant.", SettingScope::node, 1, 64},
    {"QUEEN_S3_SHUTDOWN_GRACE_MS", "", "int", "30000", "100..=3600000",
     "How long the drain of the sink may take, in milliseconds from the signal.", SettingScope::node, 100,
     3'600'000},
    {"QUEEN_S3_QUEUES", "queues", "text", "required", "comma list, or *",
     "The queues to copy to the bucket; of the environment it also turns the sink of the default tenant on.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_ENDPOINT", "endpoint", "text", "required", "http:// or https://, host, optional port",
     "Where the requests to the object store go.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_REGION", "region", "text", "required", "text", "The region that requests are signed for.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_BUCKET", "bucket", "text", "required", "one name without slash or blank",
     "The bucket that the objects go to.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_ACCESS_KEY", "accessKey", "text", "required", "text",
     "The access key that signs the requests.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_SECRET_KEY", "", "text", "required", "text", "The secret key that signs the requests.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_PREFIX", "prefix", "text", "queen", "path segments", "The root of every key in the bucket.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_PATH_STYLE", "pathStyle", "bool", "false", "true or false",
     "Puts the bucket into the path of the URL instead of the host name.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_SSE", "sse", "one of", "unset", "AES256, aws:kms",
     "Asks the object store for server-side encryption.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_SSE_KMS_KEY_ID", "sseKmsKeyId", "text", "unset", "text",
     "The KMS key, with the encryption aws:kms only.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_FORMAT", "format", "one of", "jsonl", "jsonl, parquet", "The format of the data objects.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_COMPRESSION", "compression", "one of", "zstd", "zstd, gzip, none",
     "The compression of JSONL objects.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_PARQUET_CODEC", "parquetCodec", "one of", "zstd", "zstd, snappy",
     "The compression of Parquet objects.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_LAYOUT", "layout", "one of", "merged", "merged, per-partition",
     "Whether a window is one object, or one for each partition with records in it.", SettingScope::queues, 0,
     0},
    {"QUEEN_S3_ALIGN", "align", "one of", "hour", "hour, day, none", "The boundary that no window crosses.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_START", "start", "one of", "latest", "latest, earliest",
     "Where a queue starts that was never committed.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_TARGET_MB", "targetMb", "int", "128", "1..=5120",
     "How many MiB of uncompressed records close a window.", SettingScope::queues, 1, 5120},
    {"QUEEN_S3_MAX_WINDOW_MS", "maxWindowMs", "int", "300000", "100..=86400000",
     "The longest that a window stays open, in milliseconds on the broker's clock.", SettingScope::queues,
     100, 86'400'000},
    {"QUEEN_S3_SINK", "sink", "text", "default", "1..=64 of A-Z a-z 0-9 . _ -",
     "The name of the sink, which scopes its KV documents.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_MEMORY_MB", "memoryMb", "int", "512", "1..=1048576",
     "How many MiB of records all sinks of the node may buffer.", SettingScope::node, 1, 1'048'576},
    {"QUEEN_S3_FETCH_CONCURRENCY", "fetchConcurrency", "int", "4", "1..=256",
     "Reads in flight for each queue.", SettingScope::node, 1, 256},
    {"QUEEN_S3_DISCOVERY_INTERVAL_MS", "discoveryIntervalMs", "int", "2000", "10..=3600000",
     "The pause between two looks of an idle queue for changed partitions, in milliseconds.",
     SettingScope::node, 10, 3'600'000},
    {"QUEEN_S3_SAFE_GUARD_MS", "safeGuardMs", "int", "5000", "0..=3600000",
     "How far behind the applied log a window ends at the latest, in milliseconds.", SettingScope::node, 0,
     3'600'000},
    {"QUEEN_S3_LEASE_TTL_MS", "leaseTtlMs", "int", "30000", "1000..=3600000",
     "How long the lease of a queue lives without a refresh, in milliseconds.", SettingScope::node, 1000,
     3'600'000},
    {"QUEEN_S3_MULTIPART_THRESHOLD_MB", "multipartThresholdMb", "int", "64", "5..=5120",
     "An object larger than this many MiB goes up in parts of 16 MiB.", SettingScope::node, 5, 5120},
    {"QUEEN_S3_CHECKPOINT_EVERY", "checkpointEvery", "int", "20", "1..=100000",
     "Windows between two checkpoints.", SettingScope::node, 1, 100'000},
    {"QUEEN_S3_INSTANCE", "instance", "text", "node-<node id>@<HOSTNAME>", "text",
     "The name of this node in lease and presence rows.", SettingScope::node, 0, 0},
    {"QUEEN_S3_CRASH_AT", "crashAt", "one of", "never",
     "never, after_intent, mid_upload, after_upload, before_commit, after_commit",
     "Aborts the broker at a point of the commit sequence, for crash tests.", SettingScope::node, 0, 0},
};

// The row of a variable that is in the table.
constexpr const SettingRow& setting_row(std::string_view name) {
  for (const SettingRow& row : kSettingRows) {
    if (name == row.name) return row;
  }
  return kSettingRows[0];
}

}  // namespace queen::sink
