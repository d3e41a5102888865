// The sink's settings as rows: the parser, `queen --help` and docs/configuration.md come from this table.
#pragma once

#include <cstdint>

namespace queen::sink {

enum class SettingScope : std::uint8_t {
  node,   // shared by every sink of the node
  queues  // of one sink; any of them without QUEEN_S3_QUEUES stops the boot
};

struct SettingRow {
  const char* name;
  const char* type;      // `text`, `bool`, `int`, `one of`
  const char* fallback;  // as a user would write it; `required` and `unset` are no values
  const char* range;     // for people: `1..=64`, or the accepted values
  const char* help;      // one sentence
  SettingScope scope;
  std::int64_t min;  // of an int; 0 and 0 otherwise
  std::int64_t max;
};

inline constexpr SettingRow kSettingRows[] = {
    {"QUEEN_S3_EMBEDDED", "bool", "false", "true or false", "Starts the S3 sink on this node.",
     SettingScope::node, 0, 0},
    {"QUEEN_S3_THREADS", "int", "a quarter of the cores, 1 or 2", "1..=64",
     "Threads that build objects, shared by the sinks of every tenant.", SettingScope::node, 1, 64},
    {"QUEEN_S3_SHUTDOWN_GRACE_MS", "int", "30000", "100..=3600000",
     "How long the drain of the sink may take, in milliseconds from the signal.", SettingScope::node, 100,
     3'600'000},
    {"QUEEN_S3_QUEUES", "text", "required", "comma list, or *",
     "The queues to copy to the bucket; with QUEEN_S3_EMBEDDED on it turns the sink of the default tenant "
     "on.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_ENDPOINT", "text", "required", "http:// or https://, host, optional port",
     "Where the requests to the object store go.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_REGION", "text", "required", "text", "The region that requests are signed for.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_BUCKET", "text", "required", "one name without slash or blank",
     "The bucket that the objects go to.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_ACCESS_KEY", "text", "required", "text", "The access key that signs the requests.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_SECRET_KEY", "text", "required", "text", "The secret key that signs the requests.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_PREFIX", "text", "queen", "path segments", "The root of every key in the bucket.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_PATH_STYLE", "bool", "false", "true or false",
     "Puts the bucket into the path of the URL instead of the host name.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_SSE", "one of", "unset", "AES256, aws:kms",
     "Asks the object store for server-side encryption.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_SSE_KMS_KEY_ID", "text", "unset", "text", "The KMS key, with QUEEN_S3_SSE=aws:kms only.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_FORMAT", "one of", "jsonl", "jsonl", "The format of the data objects.", SettingScope::queues,
     0, 0},
    {"QUEEN_S3_COMPRESSION", "one of", "zstd", "zstd, gzip, none", "The compression of JSONL objects.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_LAYOUT", "one of", "merged", "merged", "How a window is laid out in objects.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_ALIGN", "one of", "hour", "hour, day, none", "The boundary that no window crosses.",
     SettingScope::queues, 0, 0},
    {"QUEEN_S3_START", "one of", "latest", "latest, earliest",
     "Where a queue starts that was never committed.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_TARGET_MB", "int", "128", "1..=5120", "How many MiB of uncompressed records close a window.",
     SettingScope::queues, 1, 5120},
    {"QUEEN_S3_MAX_WINDOW_MS", "int", "300000", "100..=86400000",
     "The longest that a window stays open, in milliseconds on the broker's clock.", SettingScope::queues,
     100, 86'400'000},
    {"QUEEN_S3_SINK", "text", "default", "1..=64 of A-Z a-z 0-9 . _ -",
     "The name of the sink, which scopes its KV documents.", SettingScope::queues, 0, 0},
    {"QUEEN_S3_MEMORY_MB", "int", "512", "1..=1048576",
     "How many MiB of records all sinks of the node may buffer.", SettingScope::node, 1, 1'048'576},
    {"QUEEN_S3_FETCH_CONCURRENCY", "int", "4", "1..=256", "Reads in flight for each queue.",
     SettingScope::node, 1, 256},
    {"QUEEN_S3_DISCOVERY_INTERVAL_MS", "int", "2000", "10..=3600000",
     "The pause between two looks of an idle queue for changed partitions, in milliseconds.",
     SettingScope::node, 10, 3'600'000},
    {"QUEEN_S3_SAFE_GUARD_MS", "int", "5000", "0..=3600000",
     "How far behind the applied log a window ends at the latest, in milliseconds.", SettingScope::node, 0,
     3'600'000},
    {"QUEEN_S3_LEASE_TTL_MS", "int", "30000", "1000..=3600000",
     "How long the lease of a queue lives without a refresh, in milliseconds.", SettingScope::node, 1000,
     3'600'000},
    {"QUEEN_S3_MULTIPART_THRESHOLD_MB", "int", "64", "5..=5120",
     "An object larger than this many MiB goes up in parts of 16 MiB.", SettingScope::node, 5, 5120},
    {"QUEEN_S3_CHECKPOINT_EVERY", "int", "20", "1..=100000", "Windows between two checkpoints.",
     SettingScope::node, 1, 100'000},
    {"QUEEN_S3_INSTANCE", "text", "node-<node id>@<HOSTNAME>", "text",
     "The name of this node in lease and presence rows.", SettingScope::node, 0, 0},
    {"QUEEN_S3_CRASH_AT", "one of", "never",
     "never, after_intent, mid_upload, after_upload, before_commit, after_commit",
     "Aborts the broker at a point of the commit sequence, for crash tests.", SettingScope::node, 0, 0},
};

}  // namespace queen::sink
