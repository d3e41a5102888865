#include "broker/tenant_use.h"

#include "broker/store_steps.h"

namespace queen::broker {

using store::Keyspace;

TenantUse count_use(const StateReads& state, const std::string& tenant, Counted what) {
  TenantUse out;
  if (what != Counted::timers) {
    each_row(state.rows(), Keyspace::kv, store::kv_prefix(tenant), [&](BytesView, BytesView value) {
      ++out.kv_rows;
      out.kv_bytes += static_cast<std::int64_t>(decode_row<store::KvRow>(value).value.size());
      return true;
    });
  }
  if (what != Counted::kv) {
    each_row(state.rows(), Keyspace::timers, store::timers_prefix(tenant), [&](BytesView, BytesView) {
      ++out.timers;
      return true;
    });
  }
  return out;
}

}  // namespace queen::broker
