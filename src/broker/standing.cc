#include "broker/standing.h"

#include <algorithm>
#include <map>
#include <set>

#include "broker/store_steps.h"
#include "store/keys.h"

namespace queen::broker {

using store::Keyspace;

bool QueueFilter::matches(std::string_view name, const store::QueueRow& row) const {
  return (!queue || *queue == name) &&
         (!namespace_name || *namespace_name == row.namespace_name.value_or("")) &&
         (!task || *task == row.task.value_or(""));
}

void StandingReads::add_partitions(const std::string& tenant, QueueStanding& queue) {
  each_partition(store_, tenant, queue.name, [&](Pid pid, const store::PartitionRow& row) {
    const auto cursors = cursors_of(store_, pid, lease_now_us(store_, clock_));
    queue.figures += message_figures(row, cursors);
    ++queue.partitions;
    bool leased = false;
    for (const CursorState& cursor : cursors) {
      queue.consumed += static_cast<std::int64_t>(cursor.consumed);
      if (!cursor.lease_expires) continue;
      leased = true;
      ++queue.leases;
      queue.leased_messages += std::max<std::int64_t>(0, cursor.leased_to - cursor.committed);
    }
    queue.leased_partitions += leased ? 1 : 0;
    return true;
  });
}

void StandingReads::add_dead_letters(const std::string& tenant, const std::string& queue, StandingView& out) {
  std::map<std::string, std::uint64_t> errors;
  for (auto& [error, count] : out.errors) errors.emplace(std::move(error), count);
  std::set<Pid> partitions;
  each_row(store_, Keyspace::dlq, store::dlq_prefix(tenant, queue), [&](BytesView, BytesView value) {
    auto row = decode_row<store::DeadLetterRow>(value);
    partitions.insert(row.pid);
    const bool known = errors.contains(row.error);
    if (known || errors.size() < StandingView::kErrorsMax) ++errors[std::move(row.error)];
    return ++out.dead_letters_seen < StandingView::kDeadLettersMax;
  });
  out.dead_partitions += partitions.size();
  out.errors.assign(errors.begin(), errors.end());
}

StandingView StandingReads::standing(const std::string& tenant, const QueueFilter& filter) {
  StandingView out;
  each_row(store_, Keyspace::queues, store::queues_prefix(tenant), [&](BytesView key, BytesView value) {
    auto name = store::parse_queue_key(key);
    INVARIANT(name.has_value(), "a queue's key does not parse");
    auto row = decode_row<store::QueueRow>(value);
    if (!filter.matches(name->queue, row)) return true;
    QueueStanding& queue = out.queues.emplace_back();
    queue.name = std::move(name->queue);
    queue.row = std::move(row);
    return true;
  });
  for (QueueStanding& queue : out.queues) {
    add_partitions(tenant, queue);
    const auto id = store::counter_id(tenant, queue.name);
    {
      const auto gate = store_.read_gate();
      queue.figures.dead_letter =
          counter_of(store_, store::counter_key(store::CounterScope::queue, id, store::Counter::dlq_count));
    }
    if (queue.figures.dead_letter > 0 && out.dead_letters_seen < StandingView::kDeadLettersMax)
      add_dead_letters(tenant, queue.name, out);
  }
  std::ranges::stable_sort(out.errors, std::greater<>(), &std::pair<std::string, std::uint64_t>::second);
  return out;
}

}  // namespace queen::broker
