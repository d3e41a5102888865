#include "broker/timer_reads.h"

#include "broker/store_steps.h"

namespace queen::broker {
namespace {

using store::Keyspace;

constexpr std::size_t kPageBytesMax = 8ULL << 20;  // of names, ids and errors
// Rows hold payloads of up to a megabyte: few of them at a time.
constexpr std::size_t kTimersPerStep = 64;

std::string key_of(BytesView key) {
  auto name = store::parse_timer_key(key);
  INVARIANT(name.has_value(), "a timer's key does not parse");
  return std::move(name->timer);
}

}  // namespace

std::optional<TimerView> TimerReads::peek(std::string_view tenant, std::string_view queue,
                                          std::string_view key) const {
  const auto gate = store_.read_gate();
  const auto row = store_.get(Keyspace::timers, store::timer_key(tenant, queue, key));
  if (!row) return std::nullopt;
  return TimerView{std::string(key), decode_row<store::TimerRow>(*row)};
}

TimerPage TimerReads::page(std::string_view tenant, std::string_view queue, std::string_view after,
                           std::size_t limit) const {
  TimerPage out;
  std::size_t bytes = 0;
  RowWalk walk(store_, Keyspace::timers, store::timers_prefix(tenant, queue), kTimersPerStep);
  const Bytes passed = store::timer_key(tenant, queue, after);
  if (!after.empty()) walk.start_at(passed);
  const auto take = [&](BytesView key, BytesView value) {
    if (!after.empty() && key == passed) return true;
    out.truncated = out.timers.size() >= limit || bytes > kPageBytesMax;
    if (out.truncated) return false;
    TimerView& timer = out.timers.emplace_back(key_of(key), decode_row<store::TimerRow>(value));
    timer.row.payload = Bytes();
    bytes += timer.key.size() + timer.row.transaction_id.size() +
             timer.row.last_error.value_or(std::string()).size();
    return true;
  };
  while (walk.step(take)) {
  }
  return out;
}

std::uint64_t TimerReads::count(std::string_view tenant, std::string_view queue,
                                std::string_view prefix) const {
  Bytes keys = store::timers_prefix(tenant, queue);
  keys.append(prefix);
  std::uint64_t count = 0;
  each_row(store_, Keyspace::timers, keys, [&](BytesView, BytesView) {
    ++count;
    return true;
  });
  return count;
}

}  // namespace queen::broker
