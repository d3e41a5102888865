#include "sink/window_engine.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/invariant.h"
#include "sink/detail/engine_state.h"
#include "sink/detail/window_close.h"

namespace queen::sink {

WindowEngine::WindowEngine(EngineSettings settings, RestorePoint restored)
    : state_(std::make_unique<State>(settings)) {
  state_->restore(std::move(restored));
}

WindowEngine::~WindowEngine() = default;

std::vector<Action> WindowEngine::take_actions() {
  State& s = *state_;
  std::vector<Action> actions;
  if (s.missing || s.owed) return actions;
  if (s.next_checkpoint) {
    s.owed = true;
    actions.emplace_back(CheckpointAction{*std::exchange(s.next_checkpoint, std::nullopt)});
    return actions;
  }
  if (s.phase == EngineState::filling) s.try_close();
  if (s.phase != EngineState::filling) {
    actions.push_back(s.commit_step());
    return actions;
  }
  s.note_complete();
  if (s.draining) return actions;
  s.schedule_seeks(actions);
  s.schedule_fetches(actions);
  s.schedule_discovery(actions);
  s.schedule_idle(actions);
  return actions;
}

const std::optional<Intent>& WindowEngine::redo() const {
  return state_->redo;
}

void WindowEngine::adopt_finished() {
  State& s = *state_;
  INVARIANT(s.redo.has_value(), "a finished upload is taken over, but no window is being redone");
  INVARIANT(s.phase == EngineState::filling || s.phase == EngineState::upload,
            "a finished upload is taken over in phase {}", static_cast<int>(s.phase));
  // What was read of the window already is in its objects.
  if (s.phase == EngineState::filling) {
    auto lost = s.begin_closing(s.redo->bounds)->lost;
    s.table.keep_lost(std::move(lost));
  }
  s.plan.reset();
  s.phase = EngineState::commit;
  s.owed = false;
}

void WindowEngine::on_discovered(const ChangedPage& page) {
  state_->discovered(page);
}

void WindowEngine::on_discovery_failed() {
  state_->pass.restart();
}

void WindowEngine::on_fetched(std::uint64_t call, FetchAnswer answer) {
  State& s = *state_;
  const auto found = s.calls.find(call);
  INVARIANT(found != s.calls.end(), "an answer to fetch call {}, which is not out", call);
  if (answer.entries.size() != found->second.asked.size()) return on_fetch_failed(call);
  const State::Call asked = std::move(found->second);
  s.calls.erase(found);
  for (std::size_t i = 0; i < asked.asked.size(); ++i) {
    const auto& [partition, generation] = asked.asked[i];
    const auto absorbed =
        s.table.absorb(*partition, generation, std::move(answer.entries[i]), s.filter(), asked.issued_at);
    if (absorbed == detail::Absorbed::missing) s.missing = true;
  }
  s.note_complete();
}

void WindowEngine::on_fetch_failed(std::uint64_t call) {
  State& s = *state_;
  const auto found = s.calls.find(call);
  INVARIANT(found != s.calls.end(), "a failure of fetch call {}, which is not out", call);
  for (const auto& [partition, generation] : found->second.asked) s.table.release(*partition);
  s.calls.erase(found);
}

void WindowEngine::on_sought(std::uint64_t seek, std::optional<std::uint64_t> offset) {
  State& s = *state_;
  const auto found = s.seeks.find(seek);
  INVARIANT(found != s.seeks.end(), "an answer to seek {}, which is not out", seek);
  const auto [partition, generation] = found->second.asked.front();
  s.table.place(*partition, generation, offset, found->second.issued_at);
  s.seeks.erase(found);
}

void WindowEngine::on_intent_written() {
  state_->advance(EngineState::intent, EngineState::upload);
}

void WindowEngine::on_uploaded() {
  state_->advance(EngineState::upload, EngineState::commit);
  state_->plan.reset();
}

void WindowEngine::on_committed() {
  state_->committed();
}

void WindowEngine::on_checkpoint_done() {
  INVARIANT(state_->owed && state_->phase == EngineState::filling, "no checkpoint is being written");
  state_->owed = false;
}

void WindowEngine::on_idle_over() {
  State& s = *state_;
  s.idle_out = false;
  s.pass.cadence_due = true;
  s.pass.parked = false;
  s.table.unpark_all();
}

void WindowEngine::set_read_pace(ReadPace pace) {
  state_->pace = pace;
}
void WindowEngine::force_close() {
  state_->force = true;
}

void WindowEngine::begin_drain(FinishOpen finish_open) {
  state_->draining = true;
  state_->finish_open = finish_open == FinishOpen::yes;
}

bool WindowEngine::draining() const {
  return state_->draining;
}
bool WindowEngine::committed_in_drain() const {
  return state_->committed_in_drain;
}
bool WindowEngine::missing() const {
  return state_->missing;
}
std::uint64_t WindowEngine::buffered_weight() const {
  return state_->table.weight();
}
std::uint64_t WindowEngine::complete_passes() const {
  return state_->pass.completed;
}

std::optional<std::int64_t> WindowEngine::complete_through() const {
  state_->note_complete();
  return state_->complete_through;
}

EngineStatus WindowEngine::status() const {
  State& s = *state_;
  s.note_complete();
  EngineStatus out;
  out.state = s.phase;
  out.k = s.k;
  out.t_end = s.committed_end;
  out.complete_through = s.complete_through;
  out.safe_time = s.pass.highest_safe;
  if (out.complete_through && out.safe_time)
    out.lag_us = std::max<std::int64_t>(0, detail::stamp_minus(*out.safe_time, *out.complete_through));
  out.redo = s.redo.has_value();
  out.buffered_weight = s.table.weight();
  out.closed_weight = s.plan ? s.plan->weight : 0;
  out.partitions = s.table.size();
  out.swept_partitions = s.pass.swept;
  out.boundaries_stepped = s.stepped;
  out.fetch_calls = s.calls.size();
  return out;
}

}  // namespace queen::sink
