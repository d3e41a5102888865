// Traces as this node has them (api-messaging.md 13).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "broker/page_range.h"
#include "store/rows.h"
#include "store/store.h"

namespace queen::broker {

struct TraceEvent {
  std::optional<Pid> pid;
  std::optional<std::string> queue, partition;  // nothing when the partition is not there (any more)
  std::string transaction_id;
  store::TraceRow row;
};
struct TracePage {
  std::vector<TraceEvent> events;  // newest first
  std::uint64_t total = 0;
};
struct TraceName {
  std::string name;
  std::uint64_t traces = 0, messages = 0;
  std::int64_t last_seen = 0;
};
struct TraceNamesPage {
  std::vector<TraceName> names;  // ascending
  std::uint64_t total = 0;
};

// Thread-safe. Walks in steps over what it looks at (store_steps.h): not on a thread that serves connections.
class Traces {
 public:
  explicit Traces(const store::Store& store) : store_(store) {}

  // The partition whose number or UUID `text` is.
  std::optional<Pid> partition(const std::string& tenant, std::string_view text) const;
  TracePage of_message(const std::string& tenant, Pid pid, const std::string& transaction_id,
                       const PageRange& range) const;
  TracePage by_name(const std::string& tenant, const std::string& name, const PageRange& range) const;
  TraceNamesPage names(const std::string& tenant, const PageRange& range) const;

 private:
  std::optional<TraceEvent> read(BytesView key) const;
  TracePage page(const std::vector<Bytes>& keys, std::uint64_t total) const;
  TraceName name_summary(const std::string& tenant, const std::string& name) const;

  const store::Store& store_;
};

}  // namespace queen::broker
