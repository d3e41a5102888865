// A view that folds every change into a number, for `digest_chain` (storage.md AP-7). The number does not
// depend on the order of changes, so however apply is spread out, it is the same.
#pragma once

#include "store/damage.h"
#include "store/store.h"

namespace queen::machine::detail {

class DigestingView final : public store::View {
 public:
  explicit DigestingView(store::Store& under) : under_(under) {}

  std::optional<Bytes> get(store::Keyspace keyspace, BytesView key) const override {
    return under_.get(keyspace, key);
  }
  void put(store::Keyspace keyspace, BytesView key, BytesView value) override {
    const std::uint64_t checksum = store::row_checksum(keyspace, key, value);
    sum_ += checksum;
    under_.put(keyspace, key, value, checksum);
  }
  bool erase(store::Keyspace keyspace, BytesView key) override {
    const bool was = under_.erase(keyspace, key);
    if (was) sum_ -= store::row_checksum(keyspace, key, {}) | 1;
    return was;
  }
  void scan(store::Keyspace keyspace, BytesView prefix, BytesView from, const Visit& visit) const override {
    under_.scan(keyspace, prefix, from, visit);
  }
  std::optional<Row> last_at_or_below(store::Keyspace keyspace, BytesView prefix,
                                      BytesView to) const override {
    return under_.last_at_or_below(keyspace, prefix, to);
  }

  // Of all changes so far.
  std::uint64_t sum() const { return sum_; }

 private:
  store::Store& under_;
  std::uint64_t sum_ = 0;
};

}  // namespace queen::machine::detail
