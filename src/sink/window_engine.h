// Decides for one queue what to read and when a window closes (s3-sink.md 8, 10, 12). No I/O, no clock, no
// threads: the queue task performs the actions and feeds the answers back. One engine per run of a queue:
// restored from the KV documents, thrown away at the end of the run.
//
// The owner's loop: take_actions(), perform each, call the matching answer exactly once per action (during a
// drain, Seek, Discover and Idle may stay unanswered), repeat. Answers may come in any order and between any
// two calls. While an intent, an upload or a commit is owed nothing else is handed out; reads already in
// flight may still be answered.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sink/broker_port.h"
#include "sink/checkpoint.h"
#include "sink/documents.h"
#include "sink/layout.h"
#include "sink/seek.h"
#include "sink/window_plan.h"

namespace queen::sink {

enum class StartFrom : std::uint8_t { latest, earliest };

struct EngineSettings {
  std::uint64_t target_bytes = 128ULL << 20;  // of record weight
  std::int64_t max_window_us = 300'000'000;   // on the broker's clock
  std::int64_t guard_us = 5'000'000;
  Align align = Align::hour;
  StartFrom start = StartFrom::latest;
  std::size_t fetch_calls_max = 4;             // in flight; also the limit of concurrent seeks
  std::size_t fetch_entries_max = 1024;        // per call
  std::uint64_t fetch_bytes_max = 1ULL << 20;  // per entry
  // Payload bytes asked for in one call: its entries share them, so that calls in flight stay a fixed part of
  // memory.
  std::uint64_t fetch_call_bytes_max = 32ULL << 20;
  std::uint32_t discovery_page = 1000;
  std::int64_t discovery_slack_us = 2'000'000;
  std::uint64_t full_sweep_every = 30;     // passes
  std::uint64_t prune_after_windows = 60;  // at least 2 × full_sweep_every
  std::uint64_t checkpoint_every = 20;     // windows; 0 = no checkpoints
};

// What the KV and the bucket said when the lease was taken.
struct RestorePoint {
  std::optional<Committed> committed;
  std::optional<Intent> intent;          // counts only as k = committed.k + 1, else it is stale and ignored
  std::optional<Checkpoint> checkpoint;  // counts only with k <= committed.k
};

// Actions, each with the answer it wants.
struct DiscoverAction {  // on_discovered or on_discovery_failed
  ChangedRequest request;
};
struct FetchAction {  // on_fetched or on_fetch_failed
  std::uint64_t call = 0;
  std::vector<FetchRequest> requests;
};
struct SeekAction {  // on_sought
  std::uint64_t seek = 0;
  std::string partition;
  SeekBounds bounds;
  std::int64_t t = 0;  // µs: wanted is the first offset stamped at or above it
};
struct IntentAction {  // on_intent_written; never for a redo
  WindowBounds bounds;
};
struct UploadAction {  // on_uploaded, or for a redo also adopt_finished() when a finished manifest turned up
  std::shared_ptr<const WindowPlan> plan;
  std::optional<Intent> redo;  // set for a redo: look for its manifest first; use its format
};
struct CommitAction {  // on_committed
  std::uint64_t k = 0;
  std::int64_t t_end = 0;
};
struct CheckpointAction {  // on_checkpoint_done; best effort
  Checkpoint checkpoint;
};
struct IdleAction {};  // wait one discovery interval, then on_idle_over
// take_actions() orders them: intent, upload, commit, checkpoint or idle first, then seeks, fetches,
// discovery.
using Action = std::variant<DiscoverAction, IntentAction, UploadAction, CommitAction, CheckpointAction,
                            IdleAction, SeekAction, FetchAction>;

enum class EngineState : std::uint8_t { filling, intent, upload, commit };

struct EngineStatus {
  EngineState state = EngineState::filling;
  std::uint64_t k = 0;                            // last committed window; 0 = none
  std::optional<std::int64_t> t_end;              // of it
  std::optional<std::int64_t> complete_through;   // µs: the lake misses nothing stamped below
  std::optional<std::int64_t> safe_time;          // highest that any discovery reported
  std::optional<std::int64_t> lag_us;             // max(0, safe_time - complete_through), when both are known
  bool redo = false;                              // a window of an earlier owner is being finished
  std::uint64_t buffered_weight = 0;              // of records not in a closed window
  std::uint64_t closed_weight = 0;                // of the window in its commit sequence
  std::size_t partitions = 0;                     // tracked
  std::optional<std::uint64_t> swept_partitions;  // rows of the last complete full sweep
  std::uint64_t boundaries_stepped = 0;           // empty aligned stretches passed over
  std::uint64_t fetch_calls = 0;                  // in flight
};

class WindowEngine {
 public:
  // Not thread-safe.
  WindowEngine(EngineSettings settings, RestorePoint restored);
  ~WindowEngine();
  WindowEngine(const WindowEngine&) = delete;
  WindowEngine& operator=(const WindowEngine&) = delete;

  // What to do now. Empty when everything waits for answers, when the queue is missing, and in a drain with
  // nothing left to finish.
  std::vector<Action> take_actions();

  // The intent that this run has to finish; nothing once it is committed, and when there is none.
  const std::optional<Intent>& redo() const;
  // The finished upload of redo() was found: its window goes straight to the commit. Only while redo() is set
  // and before on_uploaded; `lost` of the manifest belongs to the window.
  void adopt_finished();

  // Answers.
  void on_discovered(const ChangedPage& page);
  void on_discovery_failed();  // the pass starts again at its first page
  void on_fetched(std::uint64_t call,
                  FetchAnswer answer);  // an answer of another length than asked counts as failed
  void on_fetch_failed(std::uint64_t call);
  void on_sought(std::uint64_t seek, std::optional<std::uint64_t> offset);  // nothing = the seek failed
  void on_intent_written();
  void on_uploaded();
  void on_committed();
  void on_checkpoint_done();
  void on_idle_over();

  // narrow: the node is over its memory budget. Only what blocks the close is read, one call at a time, in
  // small pieces: reading cannot stop altogether, because a window closes only once every partition is known
  // up to its end.
  enum class ReadPace : std::uint8_t { full, narrow };
  void set_read_pace(ReadPace pace);

  // The next take_actions() closes the window at the largest legal end, once; nothing when no close is legal.
  void force_close();
  // Stops reading. `finish_open`: force the open window closed and commit it if that is legal against the
  // last complete pass. A window in its commit sequence goes on either way. At most one window commits in a
  // drain.
  enum class FinishOpen : bool { no, yes };
  void begin_drain(FinishOpen finish_open);
  bool draining() const;
  bool committed_in_drain() const;
  // The queue does not exist here; nothing comes out of the engine any more.
  bool missing() const;

  EngineStatus status() const;
  std::uint64_t buffered_weight() const;  // cheap
  std::optional<std::int64_t> complete_through() const;
  std::uint64_t complete_passes() const;  // in this run

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace queen::sink
