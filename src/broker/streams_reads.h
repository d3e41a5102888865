// Reads of streams (api-state.md 5.2): a query's state of one partition.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/state_reads.h"
#include "store/rows.h"

namespace queen::broker {

struct StreamsState {
  std::string key;
  store::StreamsStateRow row;
};
struct StreamsStateFilter {
  std::vector<std::string> keys;  // empty: all
  std::string key_prefix;
};

// Thread-safe. Not on a thread that serves connections: a query may have many rows in a partition, and they
// are read as of one instant, since a cycle that is half seen is none.
class StreamsReads {
 public:
  explicit StreamsReads(const StateReads& state) : store_(state.rows()) {}

  // The partition of the tenant that `text`, its number or UUID, names, when the query is the tenant's too.
  std::optional<Pid> place(const std::string& tenant, const Uuid& query, std::string_view text) const;
  // In key order. Nothing when the query or the partition is not there, or is not the tenant's.
  std::optional<std::vector<StreamsState>> state(const std::string& tenant, const Uuid& query, Pid pid,
                                                 const StreamsStateFilter& filter) const;

 private:
  bool there(const std::string& tenant, const Uuid& query, Pid pid) const;

  const store::Store& store_;
};

}  // namespace queen::broker
