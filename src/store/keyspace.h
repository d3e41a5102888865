// The store's tables (storage.md 9). Names are permanent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace queen::store {

enum class Keyspace : std::uint8_t {
  meta,
  queues,
  groups,
  partitions,
  partitions_by_key,
  queue_partitions,
  cursors,
  leases_by_worker,
  pending,
  txns,
  dedup,
  dlq,
  dlq_by_pos,
  kv,
  kv_expiry,
  timers,
  timers_due,
  request_ids,
  request_expiry,
  counters,
  streams_queries,
  streams_state,
  flags,
  quotas,
  eph_config,
  traces,
  trace_names,
  trace_expiry,
  garbage,
  partition_files,
  seg_loc,
  files,
};

inline constexpr std::array<std::string_view, 32> kKeyspaceNames = {"meta",
                                                                    "queues",
                                                                    "groups",
                                                                    "partitions",
                                                                    "partitions_by_key",
                                                                    "queue_partitions",
                                                                    "cursors",
                                                                    "leases_by_worker",
                                                                    "pending",
                                                                    "txns",
                                                                    "dedup",
                                                                    "dlq",
                                                                    "dlq_by_pos",
                                                                    "kv",
                                                                    "kv_expiry",
                                                                    "timers",
                                                                    "timers_due",
                                                                    "request_ids",
                                                                    "request_expiry",
                                                                    "counters",
                                                                    "streams_queries",
                                                                    "streams_state",
                                                                    "flags",
                                                                    "quotas",
                                                                    "eph_config",
                                                                    "traces",
                                                                    "trace_names",
                                                                    "trace_expiry",
                                                                    "garbage",
                                                                    "partition_files",
                                                                    "seg_loc",
                                                                    "files"};
inline constexpr std::size_t kKeyspaceCount = kKeyspaceNames.size();

constexpr std::string_view name_of(Keyspace keyspace) {
  return kKeyspaceNames[static_cast<std::size_t>(keyspace)];
}

inline constexpr std::size_t kKeyBytesMax = 511;

}  // namespace queen::store
