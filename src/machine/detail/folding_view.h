// A view for the length of one entry: counters that change many times are held here and written once per key
// (AP-6); everything else goes through. Nothing may scan `counters` through it.
#pragma once

#include <string>
#include <unordered_map>

#include "store/rows.h"
#include "store/view.h"

namespace queen::machine::detail {

// Told of every `pending` row that is written, whatever effect writes it.
class PendingWatch {
 public:
  virtual ~PendingWatch() = default;
  virtual void pending(BytesView key, std::int64_t ready_at) = 0;
};

class FoldingView final : public store::View {
 public:
  // `watch` may be null, else it outlives the view.
  explicit FoldingView(store::View& under, PendingWatch* watch = nullptr) : under_(under), watch_(watch) {}

  std::optional<Bytes> get(store::Keyspace keyspace, BytesView key) const override {
    if (keyspace != store::Keyspace::counters) return under_.get(keyspace, key);
    const auto found = counters_.find(Bytes(key));
    return found == counters_.end() ? under_.get(keyspace, key) : found->second;
  }
  void put(store::Keyspace keyspace, BytesView key, BytesView value) override {
    if (keyspace == store::Keyspace::counters) {
      counters_.insert_or_assign(Bytes(key), Bytes(value));
      return;
    }
    under_.put(keyspace, key, value);
    if (watch_ == nullptr || keyspace != store::Keyspace::pending) return;
    if (const auto ready_at = store::decode_i64_row(value)) watch_->pending(key, *ready_at);
  }
  bool erase(store::Keyspace keyspace, BytesView key) override {
    const bool held = keyspace == store::Keyspace::counters && counters_.erase(Bytes(key)) > 0;
    return under_.erase(keyspace, key) || held;
  }
  void scan(store::Keyspace keyspace, BytesView prefix, BytesView from, const Visit& visit) const override {
    under_.scan(keyspace, prefix, from, visit);
  }
  std::optional<Row> last_at_or_below(store::Keyspace keyspace, BytesView prefix,
                                      BytesView to) const override {
    return under_.last_at_or_below(keyspace, prefix, to);
  }

  // Writes the counters. Order does not matter: each key has one last value.
  void flush() {
    for (const auto& [key, value] : counters_) under_.put(store::Keyspace::counters, key, value);
    counters_.clear();
  }

 private:
  store::View& under_;
  PendingWatch* watch_;
  std::unordered_map<Bytes, Bytes> counters_;
};

}  // namespace queen::machine::detail
