// Rows planned and not applied yet, in front of the rows of a base view. The planner decides against it, so
// that entries in flight see each other's effects; apply then brings the same rows to the base.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>

#include "store/view.h"

namespace queen::store {

// One thread. Reads take the base's rows as they are at that moment: the caller holds whatever gate the base
// asks for.
class Overlay final : public View {
 public:
  // `base` must outlive the overlay.
  explicit Overlay(const View& base) : base_(base) {}

  std::optional<Bytes> get(Keyspace keyspace, BytesView key) const override;
  void put(Keyspace keyspace, BytesView key, BytesView value) override;
  bool erase(Keyspace keyspace, BytesView key) override;
  void scan(Keyspace keyspace, BytesView prefix, BytesView from, const Visit& visit) const override;
  std::optional<Row> last_at_or_below(Keyspace keyspace, BytesView prefix, BytesView to) const override;

  // Changes made from now on belong to `epoch` (the index of the entry that is being planned). Never falls,
  // except to any value after clear().
  void set_epoch(std::uint64_t epoch);
  // Forgets changes whose epoch is at or below `applied`: the base has them. A row changed again later stays.
  void prune(std::uint64_t applied);
  // Forgets all changes: the entries that were planned will not be applied.
  void clear();
  // Rows that shadow the base.
  std::size_t changes() const;

 private:
  struct Change {
    std::optional<Bytes> value;  // nothing: deleted
    std::uint64_t epoch = 0;
  };
  using Changes = std::map<Bytes, Change, std::less<>>;
  // In the order they were made, so that prune() touches only what it forgets.
  struct Made {
    std::uint64_t epoch = 0;
    Keyspace keyspace{};
    Bytes key;
  };

  Changes& of(Keyspace keyspace) { return changes_[static_cast<std::size_t>(keyspace)]; }
  const Changes& of(Keyspace keyspace) const { return changes_[static_cast<std::size_t>(keyspace)]; }
  void change(Keyspace keyspace, BytesView key, std::optional<Bytes> value);

  const View& base_;
  std::array<Changes, kKeyspaceCount> changes_;
  std::deque<Made> made_;
  std::uint64_t epoch_ = 0;
};

}  // namespace queen::store
