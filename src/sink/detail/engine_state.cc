#include "sink/detail/engine_state.h"

#include <algorithm>

#include "base/invariant.h"
#include "base/planted_bugs.h"
#include "sink/detail/window_close.h"

namespace queen::sink {

using detail::kForever;
using detail::kNever;
using detail::stamp_minus;
using detail::stamp_plus;

namespace detail {

void DiscoveryPass::restart() {
  page_out = false;
  after.clear();
  safe_time = kForever;
  rows = 0;
  ++attempt;
}

void DiscoveryPass::begin(std::optional<std::int64_t> from) {
  restart();
  running = true;
  since = from;
}

void DiscoveryPass::complete() {
  running = false;
  wanted = false;
  cadence_due = false;
  ++completed;
  last = {attempt, safe_time};
  if (!since) swept = rows;
}

}  // namespace detail

void WindowEngine::State::restore(RestorePoint point) {
  if (point.committed) {
    k = point.committed->k;
    committed_end = point.committed->t_end;
    t_prev = point.committed->t_end;
  }
  const bool forgotten = planted(PlantedBug::sink_forgets_redo);
  if (point.intent && point.intent->bounds.k == k + 1 && !forgotten) redo = std::move(point.intent);
  if (!point.committed && settings.start == StartFrom::earliest) t_prev = kNever;
  if (!point.committed && settings.start == StartFrom::latest && redo) t_prev = redo->bounds.t_start;
  if (point.checkpoint && point.checkpoint->k <= k) table.restore_positions(*point.checkpoint);
}

std::int64_t WindowEngine::State::filter() const {
  if (planted(PlantedBug::sink_ignores_filter)) return kNever;
  if (phase != EngineState::filling) return closing.t_end;
  const std::int64_t end = t_prev.value_or(kNever);
  return redo ? std::max(end, redo->bounds.t_start) : end;
}

std::int64_t WindowEngine::State::horizon() const {
  const std::int64_t unit = align_unit_us(settings.align).value_or(settings.max_window_us);
  const auto boundary = detail::boundary_of(settings.align, t_prev.value_or(kNever), table.smallest_stamp());
  const std::int64_t end =
      std::min(stamp_minus(pass.last.safe_time, settings.guard_us), boundary.value_or(kForever));
  // A redo is wanted up to its own end, which lies below the boundary it was cut at.
  const std::int64_t needed = redo ? std::max(end, redo->bounds.t_end) : end;
  return pace == ReadPace::full ? stamp_plus(needed, unit) : needed;
}

void WindowEngine::State::try_close() {
  if (pass.completed == 0 || !t_prev) return;
  if (draining && (!finish_open || committed_in_drain)) return;
  if (redo) return try_close_redo();
  // A drain closes against the pass there is: it makes no further one.
  if (pass.wanted && !draining) return;
  const bool forced = std::exchange(force, false) || draining;
  detail::CloseInput input;
  input.t_prev = *t_prev;
  input.safe_time = pass.last.safe_time;
  input.frontier = table.queue_frontier(pass.last);
  input.reading_from = table.reading_from(pass.last);
  input.forced = forced ? detail::Forced::yes : detail::Forced::no;
  const auto decision = detail::decide_close(settings, input, table);
  t_prev = decision.t_prev;
  stepped += decision.stepped;
  if (!decision.t_end) return;
  plan = begin_closing({k + 1, *decision.t_start, *decision.t_end});
  phase = EngineState::intent;
}

// The intent's bounds stand. An upload before every record below tEnd is here would overwrite the window's
// object with less than it holds.
void WindowEngine::State::try_close_redo() {
  const std::int64_t end = redo->bounds.t_end;
  if (stamp_minus(pass.last.safe_time, settings.guard_us) < end) return;
  if (table.queue_frontier(pass.last).value_or(kForever) < end) return;
  if (planted(PlantedBug::sink_redo_takes_new_bounds))
    redo->bounds.t_end = std::max(end, stamp_minus(pass.last.safe_time, settings.guard_us));
  plan = begin_closing(redo->bounds);
  phase = EngineState::upload;
}

std::shared_ptr<WindowPlan> WindowEngine::State::begin_closing(const WindowBounds& window) {
  closing = window;
  return std::make_shared<WindowPlan>(table.cut(window));
}

Action WindowEngine::State::commit_step() {
  owed = true;
  if (phase == EngineState::intent) return IntentAction{closing};
  if (phase == EngineState::upload) return UploadAction{plan, redo};
  return CommitAction{closing.k, closing.t_end};
}

void WindowEngine::State::advance(EngineState from, EngineState to) {
  INVARIANT(phase == from && owed, "an answer for phase {} in phase {}", static_cast<int>(from),
            static_cast<int>(phase));
  phase = to;
  owed = false;
}

void WindowEngine::State::committed() {
  advance(EngineState::commit, EngineState::filling);
  k = closing.k;
  committed_end = closing.t_end;
  t_prev = closing.t_end;
  redo.reset();
  pass.wanted = true;
  if (draining) committed_in_drain = true;
  table.prune(k, settings.prune_after_windows);
  // Before the first pass the positions are empty; such a checkpoint would shadow an older useful one.
  const bool due = settings.checkpoint_every != 0 && k % settings.checkpoint_every == 0;
  if (due && pass.completed > 0) next_checkpoint = table.positions(k, closing.t_end);
}

void WindowEngine::State::discovered(const ChangedPage& page) {
  INVARIANT(pass.page_out, "a page of discovery that was not asked for");
  if (page.error == kErrorUnknown) {
    missing = true;
    return;
  }
  if (!page.error.empty()) {
    pass.restart();
    pass.parked = true;
    return;
  }
  pass.page_out = false;
  pass.safe_time = std::min(pass.safe_time, page.safe_time);
  pass.highest_safe = std::max(pass.highest_safe.value_or(page.safe_time), page.safe_time);
  pass.rows += page.partitions.size();
  const detail::PageContext context{page.safe_time, pass.attempt, k + 1,
                                    settings.start == StartFrom::earliest, t_prev};
  for (const ChangedRow& row : page.partitions) table.merge(row, context);
  // T(0) of `latest`. Only now: the partitions of this very page are read from their heads.
  // Above everything that is skipped: the last record of the page may be stamped at its safeTime, and rows
  // are read a moment after it. A redo seeks from here, and must find what the first attempt found.
  if (!t_prev) {
    t_prev = page.safe_time;
    for (const ChangedRow& row : page.partitions) t_prev = std::max(*t_prev, row.last_write_at + 1);
  }
  if (page.next) {
    pass.after = *page.next;
    return;
  }
  pass.complete();
  note_complete();
}

void WindowEngine::State::schedule_seeks(std::vector<Action>& actions) {
  for (detail::Partition* partition : table.wanting_seek()) {
    if (seeks.size() >= settings.fetch_calls_max) return;
    partition->in_flight = true;
    const std::uint64_t id = ++last_call;
    seeks[id] = {{{partition, partition->generation}}, known_safe()};
    actions.emplace_back(SeekAction{
        id, partition->name, {partition->log_start, partition->last_offset}, t_prev.value_or(kNever)});
  }
}

void WindowEngine::State::schedule_fetches(std::vector<Action>& actions) {
  // Without a complete pass there is no horizon, and nothing could close.
  if (pass.completed == 0) return;
  const bool narrow = pace == ReadPace::narrow;
  const std::size_t calls_max = narrow ? 1 : settings.fetch_calls_max;
  const std::size_t entries_max =
      narrow ? std::min<std::size_t>(settings.fetch_entries_max, 256) : settings.fetch_entries_max;
  if (calls.size() >= calls_max) return;
  const std::int64_t end = horizon();
  std::vector<detail::Partition*> batch;
  for (const auto& [frontier, partition] : table.wanting_fetch(pass.last)) {
    if (frontier >= end || calls.size() >= calls_max) break;
    batch.push_back(partition);
    if (batch.size() < entries_max) continue;
    actions.emplace_back(make_fetch(batch));
    batch.clear();
  }
  if (!batch.empty()) actions.emplace_back(make_fetch(batch));
}

FetchAction WindowEngine::State::make_fetch(const std::vector<detail::Partition*>& batch) {
  constexpr std::uint64_t kNarrowBytes = 4096;
  constexpr std::uint64_t kEntryBytesMin = 4096;
  const std::uint64_t share =
      std::max(kEntryBytesMin, settings.fetch_call_bytes_max / std::max<std::uint64_t>(batch.size(), 1));
  const std::uint64_t bytes =
      pace == ReadPace::narrow ? kNarrowBytes : std::min(settings.fetch_bytes_max, share);
  FetchAction action{++last_call, {}};
  Call& call = calls[action.call];
  call.issued_at = known_safe();
  for (detail::Partition* partition : batch) {
    partition->in_flight = true;
    call.asked.emplace_back(partition, partition->generation);
    action.requests.push_back({partition->name, partition->next, bytes});
  }
  return action;
}

void WindowEngine::State::schedule_discovery(std::vector<Action>& actions) {
  if (pass.page_out || pass.parked) return;
  if (!pass.running) {
    const bool reading = !calls.empty() || !seeks.empty();
    if (!pass.wanted && (!pass.cadence_due || reading)) return;
    const bool full = pass.completed % std::max<std::uint64_t>(settings.full_sweep_every, 1) == 0;
    const bool all = full || !t_prev || *t_prev == kNever;
    pass.begin(all ? std::nullopt : std::optional(stamp_minus(*t_prev, settings.discovery_slack_us)));
  }
  pass.page_out = true;
  actions.emplace_back(DiscoverAction{{pass.since, pass.after, settings.discovery_page}});
}

void WindowEngine::State::schedule_idle(std::vector<Action>& actions) {
  const bool waiting = pass.page_out || idle_out || !calls.empty() || !seeks.empty();
  if (!actions.empty() || waiting) return;
  idle_out = true;
  actions.emplace_back(IdleAction{});
}

void WindowEngine::State::note_complete() {
  if (t_prev && *t_prev != kNever) complete_through = std::max(complete_through.value_or(*t_prev), *t_prev);
  const bool nothing_owed = phase == EngineState::filling && !redo && table.weight() == 0;
  if (!nothing_owed || pass.completed == 0 || !t_prev) return;
  const bool unread = planted(PlantedBug::sink_understates_lag);
  const std::int64_t frontier = table.queue_frontier(pass.last).value_or(kForever);
  const std::int64_t known =
      std::min(stamp_minus(pass.last.safe_time, settings.guard_us), unread ? kForever : frontier);
  if (known == kNever) return;
  complete_through = std::max(complete_through.value_or(known), known);
}

}  // namespace queen::sink
