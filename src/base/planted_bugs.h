// Faults that are compiled in on demand, to show that the simulator finds them (tests/sim). Each is a mistake
// that could be made at one place, and that a client or a reader of the bucket can see.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace queen {

enum class PlantedBug : std::uint8_t {
  // A group that touched several logs is answered with one of them not synced.
  qlog_skips_a_sync,
  // A new log file is used before its name is durable.
  qlog_syncs_no_directory,
  // What a refused group wrote is not cut back, and a crash brings it to life.
  qlog_keeps_refused_bytes,
  // Recovery takes an entry for whole that has no part in one of its logs.
  qlog_counts_partial_entry,
  // Recovery leaves the bytes of cut entries in one of the logs.
  qlog_forgets_a_cut,
  // Recovery forgets the last whole entry, and the next one takes its index.
  qlog_reuses_last_index,
  // A dead file goes while the durable checkpoint still lists it.
  qlog_unlinks_too_early,
  // A group is committed when it is written, before it is synced.
  replica_commits_before_sync,
  // An answer that made no entry does not wait for the entries it rests on.
  broker_answers_ahead_of_log,
  // The first entry lost to a full volume is answered as the next with its index.
  broker_answers_a_lost_entry,
  // The rows of a checkpoint that could not be written are in no later one.
  broker_drops_a_failed_cut,
  // After a restart entries are stamped by the wall clock, wherever the log was.
  broker_log_time_goes_back,
  // The checkpoint leaves out when timers are due.
  store_misses_a_table,
  // The checkpoint keeps KV rows that were deleted.
  store_forgets_deletes,
  // An ack is taken under another lease than the one that lives.
  machine_ack_under_any_lease,
  // A lease is over with the first ack that leaves some of its batch.
  machine_lease_ends_at_partial_ack,
  // A pop that names its partition takes it from a lease that lives.
  machine_lease_not_exclusive,
  // A renewed lease is answered as longer and ends when it would have.
  machine_renewal_not_written,
  // Duplicates of what was pushed before the table of ids was built are stored.
  machine_dedup_forgets_older,
  // Duplicates of the first message of an earlier push are stored.
  machine_dedup_misses_first,
  // An ack of messages that are settled already moves the cursor back to them.
  machine_ack_moves_back,
  // A failed batch is delivered for ever, whatever its queue's retry limit.
  machine_retry_not_counted,
  // A transaction whose KV part lost is refused, and its pushes and acks stand.
  machine_transaction_half_done,
  // A KV write takes any version of a live row for the expected one.
  machine_kv_version_not_checked,
  // A KV write sees a row whose time is over and that was not swept yet.
  machine_kv_expired_row_counts,
  // A timer fires at the start of the second in which it is due.
  machine_timer_fires_early,
  // Of timers that fire into one partition together all but the first fire again.
  machine_timer_fires_again,
  // A timer cancelled within its last second fires all the same.
  machine_cancelled_timer_fires,
  // Completed retention takes what only the fastest group has settled.
  machine_retention_asks_fastest,
  // Retention takes what the sink that its queue names has not committed.
  machine_retention_ignores_sink,
  // The lease, the intent and the commit pointer are written whatever version they have.
  sink_drops_fence,
  // A window closes where records below its end may still come.
  sink_closes_above_safe_time,
  // A window whose intent was written is begun anew instead of finished.
  sink_forgets_redo,
  // A window that is finished after a restart ends later than its intent says.
  sink_redo_takes_new_bounds,
  // Records below the open window are shipped again when they are read again.
  sink_ignores_filter,
  // The commit pointer names a manifest that is not written yet.
  sink_commits_before_manifest,
  // The lake is called complete up to safeTime while records wait to be read.
  sink_understates_lag,
  // A checkpoint of positions stands behind records that are in no window yet.
  sink_checkpoint_skips_buffered,
  // A record stamped at the very end of a window is shipped in it.
  sink_takes_window_end,
};
inline constexpr std::size_t kPlantedBugs = 39;

// All of them, in their order.
inline constexpr std::array<PlantedBug, kPlantedBugs> kAllPlantedBugs = [] {
  std::array<PlantedBug, kPlantedBugs> all{};
  for (std::size_t i = 0; i < kPlantedBugs; ++i) all[i] = static_cast<PlantedBug>(i);
  return all;
}();

std::string_view name_of(PlantedBug bug);
// Nothing for a text that is no bug's name.
std::optional<PlantedBug> planted_bug_named(std::string_view name);

#ifdef QUEEN_PLANTED_BUGS
// Chooses the one fault of this process, or none. For a process whose nodes run on the calling thread.
void plant(std::optional<PlantedBug> bug);
bool planted(PlantedBug bug);
#else
// Known when it is compiled: what asks for it is the same program as without the question.
constexpr bool planted(PlantedBug) {
  return false;
}
#endif

}  // namespace queen
