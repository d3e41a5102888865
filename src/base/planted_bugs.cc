#include "base/planted_bugs.h"

#include <algorithm>

namespace queen {
namespace {

constexpr std::array<std::string_view, kPlantedBugs> kNames = {
    "qlog_skips_a_sync",
    "qlog_syncs_no_directory",
    "qlog_keeps_refused_bytes",
    "qlog_counts_partial_entry",
    "qlog_forgets_a_cut",
    "qlog_reuses_last_index",
    "qlog_unlinks_too_early",
    "replica_commits_before_sync",
    "broker_answers_ahead_of_log",
    "broker_answers_a_lost_entry",
    "broker_drops_a_failed_cut",
    "broker_log_time_goes_back",
    "store_misses_a_table",
    "store_forgets_deletes",
    "machine_ack_under_any_lease",
    "machine_lease_ends_at_partial_ack",
    "machine_lease_not_exclusive",
    "machine_renewal_not_written",
    "machine_dedup_forgets_older",
    "machine_dedup_misses_first",
    "machine_ack_moves_back",
    "machine_retry_not_counted",
    "machine_transaction_half_done",
    "machine_kv_version_not_checked",
    "machine_kv_expired_row_counts",
    "machine_timer_fires_early",
    "machine_timer_fires_again",
    "machine_cancelled_timer_fires",
    "machine_retention_asks_fastest",
    "machine_retention_ignores_sink",
    "sink_drops_fence",
    "sink_closes_above_safe_time",
    "sink_forgets_redo",
    "sink_redo_takes_new_bounds",
    "sink_ignores_filter",
    "sink_commits_before_manifest",
    "sink_understates_lag",
    "sink_checkpoint_skips_buffered",
    "sink_takes_window_end",
};
static_assert(static_cast<std::size_t>(PlantedBug::sink_takes_window_end) + 1 == kPlantedBugs);

#ifdef QUEEN_PLANTED_BUGS
// Global, as no other state of a node is: a fault must reach every room without a word in its interfaces.
std::optional<PlantedBug> the_bug;
#endif

}  // namespace

std::string_view name_of(PlantedBug bug) {
  return kNames[static_cast<std::size_t>(bug)];
}

std::optional<PlantedBug> planted_bug_named(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return kAllPlantedBugs[static_cast<std::size_t>(found - kNames.begin())];
}

#ifdef QUEEN_PLANTED_BUGS
void plant(std::optional<PlantedBug> bug) {
  the_bug = bug;
}

bool planted(PlantedBug bug) {
  return the_bug == bug;
}
#endif

}  // namespace queen
