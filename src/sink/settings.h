// The settings of the sink as the rooms use them, read once at boot (s3-sink.md 4). Rows: settings_table.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lake/record_writer.h"
#include "s3/object_store.h"
#include "sink/layout.h"
#include "sink/window_engine.h"

namespace queen::sink {

// The places where a crash test ends the process (s3-sink.md 10.1).
enum class CrashPoint : std::uint8_t {
  never,
  after_intent,
  mid_upload,
  after_upload,
  before_commit,
  after_commit
};
std::string_view name_of(CrashPoint point);

// One sink: what is copied, where to and how.
struct UnitSettings {
  bool all_queues = false;          // `*`; then `queues` is empty
  std::vector<std::string> queues;  // at least one otherwise, in the order given, each once
  std::string endpoint;             // without a trailing slash
  std::string region;
  std::string bucket;
  std::string access_key;
  std::string secret_key;
  std::string prefix = "queen";
  bool path_style = false;
  s3::Sse sse = s3::Sse::off;
  std::string sse_kms_key_id;
  lake::Kind kind;  // the codec is the one of its format
  Layout layout = Layout::merged;
  Align align = Align::hour;
  StartFrom start = StartFrom::latest;
  std::uint64_t target_bytes = 128ULL << 20;
  std::int64_t max_window_us = 300'000'000;
  std::string sink = "default";
};

// What all sinks of a node share. µs and bytes.
struct NodeSettings {
  int threads = 1;  // that build objects
  std::int64_t shutdown_grace_us = 30'000'000;
  std::uint64_t memory_bytes = 512ULL << 20;
  int fetch_concurrency = 4;
  std::int64_t discovery_interval_us = 2'000'000;
  std::int64_t safe_guard_us = 5'000'000;
  std::int64_t lease_ttl_us = 30'000'000;
  std::uint64_t multipart_threshold_bytes = 64ULL << 20;
  std::uint64_t checkpoint_every = 20;
  std::string instance;             // never blank
  bool instance_generated = false;  // made up because there was nothing to build it from
  CrashPoint crash_at = CrashPoint::never;
};

struct SinkSettings {
  std::optional<UnitSettings> environment;  // the default tenant's sink; nothing without QUEEN_S3_QUEUES
  NodeSettings node;
  std::vector<std::string> ignored;  // variables of a standalone edition that are set; one warning names them
};

// What the machine and the node add to the variables.
struct SettingsContext {
  std::uint64_t node_id = 1;
  unsigned cores = 1;
  std::string os_host_name;       // may be blank
  std::uint64_t random_bits = 0;  // for a made-up instance name
};

using Lookup = std::function<std::optional<std::string>(std::string_view)>;

// Reads every variable of settings_table.h but QUEEN_S3_EMBEDDED, which the caller has found to be true.
// Blank is unset, values are trimmed, enumerated values ignore case. Errors: invalid; the sentence starts
// with `QUEEN_S3_EMBEDDED=true: ` and names the variable (s3-sink.md 4.5); it never holds the secret key.
Result<SinkSettings> read_settings(const Lookup& lookup, const SettingsContext& context);

// The line at start: every setting as the environment spells it. Never the secret, of a KMS key id only the
// last four characters (s3-sink.md 24).
std::string start_line(const UnitSettings& unit, const NodeSettings& node, std::string_view tenant,
                       std::string_view version);

// The settings of the client that `unit` asks for.
s3::ClientSettings client_settings(const UnitSettings& unit, const NodeSettings& node);

}  // namespace queen::sink
