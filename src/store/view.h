// Rows by key, as the planner and apply see them: the store itself, or the store under an overlay of what is
// planned and not applied yet.
#pragma once

#include <functional>
#include <optional>

#include "base/bytes.h"
#include "store/keyspace.h"

namespace queen::store {

class View {
 public:
  virtual ~View() = default;
  virtual std::optional<Bytes> get(Keyspace keyspace, BytesView key) const = 0;
  virtual void put(Keyspace keyspace, BytesView key, BytesView value) = 0;
  // False when there was no such row.
  virtual bool erase(Keyspace keyspace, BytesView key) = 0;
  // Visits rows whose key starts with `prefix` and is at or above `from` (which may be empty), in byte order,
  // until `visit` gives false. `visit` must not write to this view.
  using Visit = std::function<bool(BytesView key, BytesView value)>;
  virtual void scan(Keyspace keyspace, BytesView prefix, BytesView from, const Visit& visit) const = 0;
  // The last row whose key starts with `prefix` and is at or below `to`; nothing when there is none.
  struct Row {
    Bytes key;
    Bytes value;
  };
  virtual std::optional<Row> last_at_or_below(Keyspace keyspace, BytesView prefix, BytesView to) const = 0;
};

}  // namespace queen::store
