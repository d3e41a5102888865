// Retention: which of the proposed moves still hold (storage.md 17). The facts of a move are of appends,
// which never change; settings, cursors and watermarks may have changed since it was proposed (RT-11).
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "machine/detail/cycle.h"
#include "machine/retention.h"

namespace queen::machine::detail {
namespace {

// What the partitions of one queue are judged by.
struct QueueFacts {
  Cutoffs cutoffs;
  std::vector<RegisteredGroup> groups;
};

class Judge {
 public:
  Judge(Cycle& cycle, const RetentionCommand& command) : cycle_(cycle), command_(command) {
    for (const Effect& effect : cycle.entry.effects) {
      if (const auto* mark = std::get_if<Watermark>(&effect)) moved_.insert(mark->pid.value);
      if (const auto* gone = std::get_if<PartitionDelete>(&effect)) moved_.insert(gone->pid.value);
    }
  }

  void judge(const RetentionMove& move, RetentionOutcome& out) {
    const auto partition = must(partition_row(cycle_.view, move.pid));
    if (!partition || moved_.contains(move.pid.value)) {
      ++out.dropped;
      return;
    }
    if (move.remove) {
      remove(move.pid, *partition, out);
      return;
    }
    const QueueFacts* queue = facts(*partition);
    const auto mark = queue == nullptr ? std::nullopt : watermark(move, *partition, *queue);
    if (!mark) {
      ++out.dropped;
      return;
    }
    cycle_.emit(*mark);
    moved_.insert(move.pid.value);
    ++out.moved;
  }

 private:
  void remove(Pid pid, const store::PartitionRow& partition, RetentionOutcome& out) {
    if (command_.cleanup_us <= 0 ||
        !must(partition_dead(cycle_.view, pid, partition, cycle_.now, command_.cleanup_us))) {
      ++out.dropped;
      return;
    }
    cycle_.emit(PartitionDelete{pid, queue_id(partition.tenant, partition.queue)});
    cycle_.dedup.forget(pid);
    moved_.insert(pid.value);
    ++out.removed;
  }

  // Nothing when the queue is gone, which its partitions never outlive.
  const QueueFacts* facts(const store::PartitionRow& partition) {
    const Bytes key = store::queue_key(partition.tenant, partition.queue);
    const auto found = queues_.find(key);
    if (found != queues_.end()) return &found->second;
    const auto row = must(queue_row(cycle_.view, partition.tenant, partition.queue));
    if (!row) return nullptr;
    const auto end = sink_end_us(cycle_.view, partition.tenant, partition.queue, *row, cycle_.now);
    return &queues_
                .emplace(key,
                         QueueFacts{cutoffs_of(*row, cycle_.now, end, command_.txn_window_min_us),
                                    must(registered_groups(cycle_.view, partition.tenant, partition.queue))})
                .first->second;
  }

  // Whether `end` is where an append stamped `stamp` ends, as far as rows can tell: those that left RAM are
  // the proposer's word, read from the log's index.
  bool ends_append(Pid pid, const store::PartitionRow& partition, std::int64_t end,
                   std::int64_t stamp) const {
    if (end > partition.last_offset + 1) return false;
    if (end <= partition.rows_start) return true;
    const auto append = append_at(cycle_.view, pid, end - 1);
    return append && append->row.end == end - 1 && append->row.created_at == stamp;
  }

  bool log_moves(const RetentionMove& move, const store::PartitionRow& partition,
                 const QueueFacts& queue) const {
    if (move.log_stamp == 0 || move.log_start <= partition.log_start) return false;
    if (move.log_start_from != partition.log_start) return false;
    if (!ends_append(move.pid, partition, move.log_start, move.log_stamp)) return false;
    Completion completion;
    if (move.log_stamp < queue.cutoffs.completed)
      completion = must(completion_of(cycle_.view, move.pid, queue.groups));
    return message_due(queue.cutoffs, completion, move.log_start - 1, move.log_stamp);
  }

  // The stamp of the first message that stays; nothing when the move does not tell and no row does.
  std::optional<std::int64_t> oldest_live(const RetentionMove& move) const {
    if (const auto append = append_at(cycle_.view, move.pid, move.log_start)) return append->row.created_at;
    return move.oldest_live_at;
  }

  std::optional<Watermark> watermark(const RetentionMove& move, const store::PartitionRow& partition,
                                     const QueueFacts& queue) const {
    Watermark out;
    out.pid = move.pid;
    out.queue_id = queue_id(partition.tenant, partition.queue);
    out.log_start = partition.log_start;
    out.oldest_live_at = partition.oldest_live_at;
    if (log_moves(move, partition, queue)) {
      const auto oldest = oldest_live(move);
      if (oldest || move.log_start > partition.last_offset) {
        out.log_start = move.log_start;
        out.retained_bytes = move.retained_bytes;
        out.oldest_live_at = oldest;
        out.dead_letters_max = command_.dead_letters_max;
      }
    }
    out.txns_start = partition.txns_start;
    if (move.txns_stamp != 0 && move.txns_stamp < queue.cutoffs.txns &&
        ends_append(move.pid, partition, move.txns_start, move.txns_stamp))
      out.txns_start = std::max(out.txns_start, std::min(move.txns_start, out.log_start));
    out.rows_start = partition.rows_start;
    if (command_.rows_window && move.rows_stamp != 0 && move.rows_stamp < queue.cutoffs.rows &&
        ends_append(move.pid, partition, move.rows_start, move.rows_stamp))
      out.rows_start = std::max(out.rows_start, move.rows_start);
    out.rows_start = std::max(out.rows_start, out.txns_start);
    if (out.log_start == partition.log_start && out.txns_start == partition.txns_start &&
        out.rows_start == partition.rows_start)
      return std::nullopt;
    return out;
  }

  Cycle& cycle_;
  const RetentionCommand& command_;
  std::unordered_map<Bytes, QueueFacts> queues_;
  std::unordered_set<std::uint64_t> moved_;  // one move for each partition and entry
};

}  // namespace

RetentionOutcome plan_retention(Cycle& cycle, const RetentionCommand& command) {
  INVARIANT(command.moves.size() <= RetentionCommand::kMovesMax, "{} moves in one command",
            command.moves.size());
  RetentionOutcome out;
  Judge judge(cycle, command);
  for (const RetentionMove& move : command.moves) judge.judge(move, out);
  return out;
}

}  // namespace queen::machine::detail
