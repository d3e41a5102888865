// What a window engine knows between two calls, and the steps that change it (window_engine.h is the face).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sink/detail/partition_table.h"
#include "sink/window_engine.h"

namespace queen::sink {

namespace detail {

// Enumeration of the partitions that changed (s3-sink.md 8.3). An attempt is one run over all pages.
struct DiscoveryPass {
  bool wanted = true;        // the pass that every window needs before it may close
  bool cadence_due = false;  // an idle wait is over
  bool running = false;
  bool page_out = false;
  bool parked = false;  // the last page answered an error: not asked again before an idle wait
  std::optional<std::int64_t> since;
  std::string after;
  std::uint64_t attempt = 0;          // from 1
  std::int64_t safe_time = kForever;  // smallest over the pages of this attempt
  std::uint64_t rows = 0;
  std::uint64_t completed = 0;  // passes in this run
  CompletePass last;
  std::optional<std::int64_t> highest_safe;
  std::optional<std::uint64_t> swept;

  // Back to the first page; the pages answered so far count for nothing.
  void restart();
  void begin(std::optional<std::int64_t> from);
  void complete();
};

}  // namespace detail

struct WindowEngine::State {
  struct Call {
    std::vector<std::pair<detail::Partition*, std::uint32_t>> asked;  // with the generation asked for
    std::int64_t issued_at = detail::kNever;                          // safeTime known when it went out
  };

  explicit State(EngineSettings given) : settings(given) {}

  void restore(RestorePoint point);
  void try_close();
  void try_close_redo();
  std::shared_ptr<WindowPlan> begin_closing(const WindowBounds& window);
  Action commit_step();
  void advance(EngineState from, EngineState to);
  void committed();
  void discovered(const ChangedPage& page);
  void schedule_seeks(std::vector<Action>& actions);
  void schedule_fetches(std::vector<Action>& actions);
  void schedule_discovery(std::vector<Action>& actions);
  void schedule_idle(std::vector<Action>& actions);
  FetchAction make_fetch(const std::vector<detail::Partition*>& batch);
  void note_complete();

  // Records below this stamp are committed already, or will be by the window in its commit sequence.
  std::int64_t filter() const;
  // Partitions known up to here are not read further for now.
  std::int64_t horizon() const;
  std::int64_t known_safe() const { return pass.highest_safe.value_or(detail::kNever); }

  EngineSettings settings;
  EngineState phase = EngineState::filling;
  bool owed = false;  // an intent, upload, commit or checkpoint is out
  bool missing = false;
  bool idle_out = false;
  bool force = false;
  bool draining = false, finish_open = false, committed_in_drain = false;
  ReadPace pace = ReadPace::full;

  std::uint64_t k = 0;  // committed
  std::optional<std::int64_t> committed_end;
  std::optional<std::int64_t>
      t_prev;  // kNever = minus infinity; nothing = `latest` before its first safeTime
  std::optional<Intent> redo;
  WindowBounds closing;                    // of the window in its commit sequence
  std::shared_ptr<const WindowPlan> plan;  // of it, until uploaded
  std::optional<Checkpoint> next_checkpoint;
  std::optional<std::int64_t> complete_through;
  std::uint64_t stepped = 0;

  detail::DiscoveryPass pass;
  detail::PartitionTable table;
  std::map<std::uint64_t, Call> calls, seeks;
  std::uint64_t last_call = 0;
};

}  // namespace queen::sink
