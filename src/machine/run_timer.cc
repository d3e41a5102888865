// What timer effects do to the rows: a timer, and the row that says when it is due.
#include "machine/detail/run.h"

namespace queen::machine::detail {
namespace {

struct TimerAt {
  std::string_view tenant, queue, key;
};

Bytes due_key(const TimerAt& timer, const store::TimerRow& row) {
  return store::timer_due_key(row.due(), timer.tenant, timer.queue, timer.key);
}

// The timer as it stands, with its due row gone. Errors: corrupt.
Result<std::optional<store::TimerRow>> take(const Where& at, const TimerAt& timer) {
  auto row = read_row<store::TimerRow>(at.view, Keyspace::timers,
                                       store::timer_key(timer.tenant, timer.queue, timer.key));
  if (row && *row) at.view.erase(Keyspace::timers_due, due_key(timer, **row));
  return row;
}

void put(const Where& at, const TimerAt& timer, const store::TimerRow& row) {
  at.view.put(Keyspace::timers, store::timer_key(timer.tenant, timer.queue, timer.key), row.encode());
  at.view.put(Keyspace::timers_due, due_key(timer, row), {});
}

}  // namespace

Status run(const Where& at, const TimerUpsert& effect) {
  const TimerAt timer{effect.tenant, effect.queue, effect.key};
  if (const auto old = take(at, timer); !old) return old.error();
  put(at, timer, effect.row);
  return {};
}

Status run(const Where& at, const TimerDelete& effect) {
  const TimerAt timer{effect.tenant, effect.queue, effect.key};
  const auto old = take(at, timer);
  if (!old) return old.error();
  if (*old) at.view.erase(Keyspace::timers, store::timer_key(timer.tenant, timer.queue, timer.key));
  return {};
}

Status run(const Where& at, const TimerBackoff& effect) {
  const TimerAt timer{effect.tenant, effect.queue, effect.key};
  const auto old = take(at, timer);
  if (!old) return old.error();
  if (!*old) return {};
  store::TimerRow row = **old;
  row.visible_at = effect.visible_at;
  row.attempts = effect.attempts;
  row.last_error = effect.last_error;
  row.updated = effect.updated_at;
  put(at, timer, row);
  return {};
}

}  // namespace queen::machine::detail
