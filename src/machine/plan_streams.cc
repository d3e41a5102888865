// Streams: the registry of queries, and the cycle that commits state, sink pushes and the source's ack
// together (api-state.md 5). Windows and operators are the client's.
#include <algorithm>

#include "machine/detail/cycle.h"
#include "machine/detail/pop.h"
#include "machine/detail/trial.h"

namespace queen::machine::detail {
namespace {

struct Query {
  Uuid id;
  store::StreamsQueryRow row;
};

// The tenant's query of that name, and how many queries it has.
std::pair<std::optional<Query>, std::uint64_t> query_named(const View& view, std::string_view tenant,
                                                           std::string_view name) {
  std::optional<Query> found;
  std::uint64_t count = 0;
  view.scan(Keyspace::streams_queries, store::streams_queries_prefix(tenant), {},
            [&](BytesView key, BytesView value) {
              ++count;
              auto row = must(store::StreamsQueryRow::decode(value));
              const auto id = store::parse_streams_query_key(key);
              INVARIANT(id.has_value(), "a streams query has a broken key");
              if (row.name == name) found = Query{id->query_id, std::move(row)};
              return true;
            });
  return {std::move(found), count};
}

struct Refused {
  std::string reason, error;
};

struct Cycling {
  Cycle& cycle;  // on trial
  const Command& command;
  const StreamsCycleCommand& body;
  const store::PartitionRow& partition;
  StreamsCycleOutcome& out;

  std::optional<Refused> ack();
  std::optional<Refused> push();
  void state();

 private:
  void advance(store::CursorRow& row, std::int64_t to);
  void end_lease(store::CursorRow& row, std::int64_t first);
};

void Cycling::advance(store::CursorRow& row, std::int64_t to) {
  out.ack->count = to - row.committed;
  row.total_consumed += static_cast<std::uint64_t>(to - row.committed);
  row.committed = to;
}

void Cycling::end_lease(store::CursorRow& row, std::int64_t first) {
  if (row.worker && row.batch_end && row.committed >= *row.batch_end) {
    row.released = store::ReleasedLease{*row.worker, row.batch_start.value_or(first), *row.batch_end};
    // The whole batch is settled: the next one starts afresh (ST-12).
    row.batch_retry_count = 0;
    row.attempt_offset.reset();
    row.attempt_count = 0;
  }
  out.ack->lease_released = row.worker.has_value();
  clear_lease(row);
}

std::optional<Refused> Cycling::ack() {
  if (!body.ack) return std::nullopt;
  const StreamsCycleCommand::Ack& ack = *body.ack;
  auto cursor = must(cursor_row(cycle.view, body.pid, body.group));
  if (!ack.lease_id.empty() && (!cursor || cursor->worker != ack.lease_id || !lease_live(*cursor, cycle.now)))
    return Refused{"bad_lease", "invalid or expired lease"};
  if (!cursor) return std::nullopt;
  if (ack.completed && !cursor->batch_end) return Refused{"no_batch", "the group has no leased batch there"};
  out.ack = StreamsCycleOutcome::Acked{};
  const std::int64_t first = cursor->committed + 1;
  if (ack.completed && body.release_lease) {
    advance(*cursor, *cursor->batch_end);
    end_lease(*cursor, first);
  } else if (ack.completed) {
    const std::int64_t left = *cursor->batch_end - cursor->committed;
    if (ack.count > 0) {
      advance(*cursor, cursor->committed + std::min(ack.count, left));
      cursor->batch_start = cursor->batch_start.value_or(first);
      if (cursor->attempt_offset) cursor->attempt_offset = cursor->committed + 1;
    }
    // A lease over nothing is none.
    if (cursor->committed >= *cursor->batch_end) end_lease(*cursor, first);
  } else {
    end_lease(*cursor, first);
  }
  cycle.emit(
      CursorSet{body.pid, body.group, std::move(*cursor), 0, queue_id(partition.tenant, partition.queue)});
  return std::nullopt;
}

std::optional<Refused> Cycling::push() {
  using Status = PushItemOutcome::Status;
  Outcome pushed = plan_push(cycle, command, body.push);
  if (!pushed.code.empty()) return Refused{std::move(pushed.code), std::move(pushed.error)};
  out.push = std::get<PushOutcome>(std::move(pushed.body));
  for (std::size_t i = 0; i < out.push.batches.size(); ++i) {
    const std::string where = body.push.batches[i].partition + " of queue " + body.push.batches[i].queue;
    for (const PushItemOutcome& item : out.push.batches[i].items) {
      if (item.status == Status::too_large)
        return Refused{"too_large", "the pushes to partition " + where + " are larger than an entry may be"};
      if (item.status == Status::duplicate && !item.first_in_batch)
        return Refused{"duplicate", "partition " + where + " holds a pushed transactionId already"};
    }
  }
  return std::nullopt;
}

void Cycling::state() {
  for (const StreamsStateOp& op : body.state) {
    if (op.value)
      cycle.emit(StreamsStatePut{body.query_id, body.pid, op.key, {*op.value, cycle.now}});
    else
      cycle.emit(StreamsStateDelete{body.query_id, body.pid, op.key});
    ++out.state_ops;
  }
}

}  // namespace

StreamsRegisterOutcome plan_streams_register(Cycle& cycle, const Command& command,
                                             const StreamsRegisterCommand& body) {
  auto [known, count] = query_named(cycle.view, command.tenant, body.name);
  StreamsRegisterOutcome out;
  out.query_id = known ? known->id : body.query_id;
  if (!known && body.queries_max && count >= *body.queries_max) {
    out.denied = true;
    return out;
  }
  out.fresh = !known;
  const bool changed = known && known->row.config_hash != body.config_hash;
  out.mismatch = changed && !body.reset;
  if (out.mismatch) return out;
  out.reset = changed;
  store::StreamsQueryRow row{
      body.name, body.source, body.sink, body.config_hash, known ? known->row.created : cycle.now, cycle.now};
  // Nothing but its time would be new: nothing to write.
  if (known) row.updated = known->row.updated;
  if (known && row == known->row) return out;
  row.updated = cycle.now;
  cycle.emit(StreamsQueryUpsert{command.tenant, out.query_id, std::move(row)});
  return out;
}

StreamsCycleOutcome plan_streams_cycle(Cycle& cycle, const Command& command,
                                       const StreamsCycleCommand& body) {
  StreamsCycleOutcome out;
  const auto partition = must(partition_row(cycle.view, body.pid));
  const Bytes query = store::streams_query_key(command.tenant, body.query_id);
  out.found = partition && partition->tenant == command.tenant &&
              cycle.view.get(Keyspace::streams_queries, query).has_value();
  if (!out.found) return out;
  out.queue = partition->queue;
  Trial trial(cycle);
  Cycling cycling{trial.cycle(), command, body, *partition, out};
  std::optional<Refused> refused = cycling.ack();
  if (!refused) refused = cycling.push();
  if (refused) {
    out.reason = std::move(refused->reason);
    out.error = std::move(refused->error);
    out.ack.reset();
    return out;
  }
  cycling.state();
  trial.keep();
  return out;
}

}  // namespace queen::machine::detail
