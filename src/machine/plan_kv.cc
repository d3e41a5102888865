// The KV store: preconditions, versions, liveness, reads at the call's own position (api-state.md 1).
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "base/planted_bugs.h"
#include "machine/decimal.h"
#include "machine/detail/cycle.h"

namespace queen::machine::detail {
namespace {

constexpr std::size_t kReadBytesMax = 4ULL << 20;
constexpr std::uint32_t kPageMax = 1000;

bool is_write(KvKind kind) {
  return kind == KvKind::put || kind == KvKind::put_if_absent || kind == KvKind::del ||
         kind == KvKind::incr || kind == KvKind::check;
}
bool is_page(KvKind kind) {
  return kind == KvKind::get_many || kind == KvKind::get_prefix;
}

KvFound found(std::string_view key, const store::KvRow& row) {
  return {std::string(key), row.value, row.version, row.expires_at, row.updated};
}

// The 4 MiB of values that one call may read, spent in the order of evaluation.
class Budget {
 public:
  bool spent() const { return used_ >= kReadBytesMax; }
  void spend(const store::KvRow& row) { used_ += row.value.size(); }

 private:
  std::size_t used_ = 0;
};

// A call while its single-key ops are decided: nothing is written before all of them are (KV-12).
class Call {
 public:
  Call(Cycle& cycle, std::string_view tenant)
      : cycle_(cycle), tenant_(tenant), version_(cycle.log.kv_version_next) {}

  KvOpOutcome decide(const KvOp& op) {
    Key& key = key_of(op);
    const bool counts = planted(PlantedBug::machine_kv_expired_row_counts) && is_write(op.kind);
    const bool live = key.row && (counts || key.row->live_at(cycle_.now));
    KvOpOutcome out;
    if (live) out.row = found(op.key, *key.row);
    if (op.kind == KvKind::get) {
      if (live) budget_.spend(*key.row);
      return out;
    }
    if (op.kind == KvKind::incr) {
      increment(key, op, live, out);
      return out;
    }
    out.reason = lost(op, live ? key.row->version : 0);
    if (!out.reason.empty()) {
      // An expired row in the way of a delete goes all the same (KV-5).
      if (op.kind == KvKind::del && key.row && !live) remove(key);
      return out;
    }
    out.applied = true;
    if (op.kind == KvKind::check) return out;
    if (op.kind == KvKind::del)
      remove(key);
    else
      put(key, op.value, expiry_of(op), out);
    return out;
  }

  // Writes what was decided, in the order of evaluation.
  void commit() {
    for (auto& [name, row] : written_) {
      if (row)
        cycle_.emit(KvPut{std::string(tenant_), name.first, name.second, std::move(*row)});
      else
        cycle_.emit(KvDelete{std::string(tenant_), name.first, name.second});
    }
    cycle_.log.kv_version_next = version_;
  }
  bool wrote() const { return !written_.empty(); }

  KvOpOutcome read_many(const KvOp& op) {
    KvOpOutcome out;
    std::vector<std::string> keys = op.keys;
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    std::vector<std::string_view> missing;
    for (const std::string& key : keys) {
      const auto row = stored(op.ns, key);
      if (!row || !row->live_at(cycle_.now)) {
        missing.push_back(key);
      } else if (budget_.spent()) {
        out.truncated = true;
      } else {
        budget_.spend(*row);
        out.rows.push_back(found(key, *row));
      }
    }
    // As asked: in request order, repeats and all.
    for (const std::string& key : op.keys)
      if (std::binary_search(missing.begin(), missing.end(), std::string_view(key)))
        out.missing.push_back(key);
    return out;
  }

  KvOpOutcome read_prefix(const KvOp& op) {
    KvOpOutcome out;
    const Bytes ns = store::kv_prefix(tenant_, op.ns);
    const std::uint32_t limit = std::clamp<std::uint32_t>(op.limit, 1, kPageMax);
    // The first key above `after` is `after` with a zero byte.
    const Bytes from = op.after.empty() ? Bytes() : ns + op.after + '\0';
    cycle_.view.scan(Keyspace::kv, ns + op.prefix, from, [&](BytesView key, BytesView value) {
      auto row = must(store::KvRow::decode(value));
      if (!row.live_at(cycle_.now)) return true;
      out.truncated = out.rows.size() == limit || budget_.spent();
      if (out.truncated) return false;
      if (op.keys_only)
        row.value.clear();
      else
        budget_.spend(row);
      out.rows.push_back(found(key.substr(ns.size()), row));
      return true;
    });
    if (out.truncated && !out.rows.empty()) out.next_after = out.rows.back().key;
    if (out.truncated && out.rows.empty() && !op.after.empty()) out.next_after = op.after;
    return out;
  }

 private:
  using Name = std::pair<std::string, std::string>;  // namespace, key
  struct Key {
    std::optional<store::KvRow> row;  // as the call sees it
    Name name;
  };

  std::optional<store::KvRow> stored(std::string_view ns, std::string_view key) const {
    return must(read_row<store::KvRow>(cycle_.view, Keyspace::kv, store::kv_key(tenant_, ns, key)));
  }
  Key& key_of(const KvOp& op) {
    const auto [at, fresh] = keys_.try_emplace({op.ns, op.key});
    if (fresh) at->second = {stored(op.ns, op.key), at->first};
    return at->second;
  }

  // Why a write does not apply; empty when it does. `version` 0: no live row.
  static std::string lost(const KvOp& op, std::uint64_t version) {
    std::optional<std::uint64_t> expect = op.expect;
    if (op.kind == KvKind::put_if_absent) expect = 0;
    if (!expect) return op.kind == KvKind::del && version == 0 ? "absent" : "";
    if (*expect == 0) return version == 0 ? "" : "exists";
    if (version == 0) return "absent";
    return version == *expect || planted(PlantedBug::machine_kv_version_not_checked) ? "" : "version";
  }

  // Starts from 0 and takes the operation's expiry when there is no live row, keeps the row's when there is
  // (KV-6).
  void increment(Key& key, const KvOp& op, bool live, KvOpOutcome& out) {
    const auto current = live ? Decimal::parse(key.row->value) : Decimal();
    if (!current) {
      out.reason = "type";
      return;
    }
    const auto next = Decimal::sum(*current, number(op.delta));
    if (!next || (!op.min.empty() && Decimal::compare(*next, number(op.min)) < 0) ||
        (!op.max.empty() && Decimal::compare(*next, number(op.max)) > 0)) {
      out.reason = "limit";
      if (!live) out.row = KvFound{op.key, current->text(), 0, std::nullopt, 0};
      return;
    }
    out.applied = true;
    put(key, next->text(), live ? key.row->expires_at : expiry_of(op), out);
  }
  static Decimal number(std::string_view json) {
    const auto out = Decimal::parse(json);
    INVARIANT(out.has_value(), "an increment by {}, which is no number", json);
    return *out;
  }

  void put(Key& key, std::string value, std::optional<std::int64_t> expires_at, KvOpOutcome& out) {
    const bool live = key.row && key.row->live_at(cycle_.now);
    store::KvRow row;
    row.value = std::move(value);
    row.version = version_++;
    row.created = live ? key.row->created : cycle_.now;
    row.updated = cycle_.now;
    row.expires_at = expires_at;
    out.row = found(key.name.second, row);
    key.row = std::move(row);
    written_.emplace_back(key.name, key.row);
  }
  void remove(Key& key) {
    if (!key.row) return;  // `expect: 0` on nothing
    key.row.reset();
    written_.emplace_back(key.name, std::nullopt);
  }
  std::optional<std::int64_t> expiry_of(const KvOp& op) const {
    constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
    if (!op.ttl_seconds) return std::nullopt;
    return *op.ttl_seconds > (kEnd - cycle_.now) / kSecondUs ? kEnd
                                                             : cycle_.now + *op.ttl_seconds * kSecondUs;
  }

  Cycle& cycle_;
  std::string_view tenant_;
  std::uint64_t version_;
  Budget budget_;
  std::map<Name, Key> keys_;
  std::vector<std::pair<Name, std::optional<store::KvRow>>> written_;
};

// Single-key ops by (namespace, key), the input index breaking ties (KV-14).
std::vector<std::size_t> evaluation_order(const KvCommand& kv) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < kv.ops.size(); ++i)
    if (!is_page(kv.ops[i].kind)) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(kv.ops[a].ns, kv.ops[a].key) < std::tie(kv.ops[b].ns, kv.ops[b].key);
  });
  return order;
}

KvOutcome refused(std::size_t index, KvOpOutcome op) {
  KvOutcome out;
  out.failed_index = static_cast<std::uint32_t>(index);
  out.failed_reason = std::move(op.reason);
  out.failed_row = std::move(op.row);
  return out;
}

}  // namespace

KvOutcome plan_kv(Cycle& cycle, const Command& command, const KvCommand& kv) {
  Call call(cycle, command.tenant);
  KvOutcome out;
  out.ops.resize(kv.ops.size());
  bool reads = false;
  bool writes = false;
  for (const std::size_t i : evaluation_order(kv)) {
    const KvOp& op = kv.ops[i];
    KvOpOutcome decided = call.decide(op);
    (is_write(op.kind) ? writes : reads) = true;
    if (is_write(op.kind) && op.required && !decided.applied) return refused(i, std::move(decided));
    out.ops[i] = std::move(decided);
  }
  const bool wrote = call.wrote();
  call.commit();
  for (std::size_t i = 0; i < kv.ops.size(); ++i) {
    if (!is_page(kv.ops[i].kind)) continue;
    out.ops[i] = kv.ops[i].kind == KvKind::get_many ? call.read_many(kv.ops[i]) : call.read_prefix(kv.ops[i]);
    reads = true;
  }
  // A call that lost all its writes and also reads gets its position in the log (KV-17).
  if (writes && reads && !wrote) cycle.emit(Noop{});
  return out;
}

void plan_kv_sweep(Cycle& cycle, const KvSweepCommand& sweep) {
  struct Expired {
    store::KvExpiryKey at;
    Bytes key;
  };
  std::vector<Expired> expired;
  cycle.view.scan(Keyspace::kv_expiry, {}, {}, [&](BytesView key, BytesView value) {
    const auto at = store::parse_kv_expiry_key(key);
    INVARIANT(at.has_value(), "a kv_expiry row has a broken key");
    if (at->expires_at > cycle.now || expired.size() == sweep.limit) return false;
    expired.push_back({*at, must(store::decode_bytes_row(value))});
    return true;
  });
  for (const Expired& one : expired) {
    const auto row = must(read_row<store::KvRow>(cycle.view, Keyspace::kv, one.key));
    if (!row || row->version != one.at.version) continue;  // written again meanwhile
    auto name = store::parse_kv_key(one.key);
    INVARIANT(name.has_value(), "a kv row has a broken key");
    cycle.emit(KvDelete{std::move(name->tenant), std::move(name->ns), std::move(name->key)});
  }
}

}  // namespace queen::machine::detail
