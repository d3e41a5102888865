// What the console shows of the key/value store, as this node has it (api-state.md 1.8).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "broker/state_reads.h"
#include "store/rows.h"

namespace queen::broker {

struct KvNamespace {
  std::string name;
  std::uint64_t keys = 0;  // stored, expired ones that are not swept yet among them
};
struct KvListQuery {
  std::string ns, prefix;
  std::string after;          // keys above it only; empty = from the start
  std::uint32_t limit = 100;  // at least 1
  bool include_expired = false;
  bool values = true;  // false: rows come without them, and they do not count as bytes
};
struct KvListed {
  std::string key;
  store::KvRow row;
  bool expired = false;
};
struct KvListPage {
  std::vector<KvListed> rows;  // in byte order of their keys
  bool truncated = false;      // there are more
  std::uint64_t bytes = 0;     // of the page's keys and values
};

// Thread-safe. Walks in steps over what it looks at (store_steps.h): not on a thread that serves connections.
// A page is of one moment unless more expired rows than a step holds are passed over.
class KvReads {
 public:
  explicit KvReads(const StateReads& state) : store_(state.rows()) {}

  // In byte order of their names.
  std::vector<KvNamespace> namespaces(const std::string& tenant) const;
  // `wall_us`: rows are live by it, or by the greatest stamp applied when that is later. A page also ends
  // with the row that brings it to 4 MiB.
  KvListPage list(const std::string& tenant, const KvListQuery& query, std::int64_t wall_us) const;

 private:
  const store::Store& store_;
};

}  // namespace queen::broker
