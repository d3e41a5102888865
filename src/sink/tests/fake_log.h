// One queue's log as the window engine sees it through fetch and changed, in virtual time, and a driver that
// plays the queue task against it: it performs actions, keeps what a KV and a bucket would keep, and can be
// killed and restored.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "sink/window_engine.h"

namespace queen::sink::test {

inline constexpr std::int64_t kSecond = 1'000'000;
inline constexpr std::int64_t kHour = 3600 * kSecond;
inline constexpr std::int64_t kEpoch = 500'000 * kHour;  // an hour boundary

struct LogRecord {
  std::uint64_t offset = 0;
  std::int64_t ts = 0;
  std::shared_ptr<const std::string> text;  // transaction id, then payload
  std::size_t id_size = 0;
};
struct LogPartition {
  Uuid id;
  std::deque<LogRecord> records;
  std::uint64_t log_start = 0, next = 0;
  std::int64_t written_at = 0;
};

class FakeLog {
 public:
  std::int64_t now = kEpoch + 10 * kSecond;  // of the last entry
  std::optional<std::int64_t> pinned_safe;
  std::map<std::string, LogPartition> partitions;
  std::vector<std::string> order;  // of creation
  bool exists = true;
  std::map<std::string, std::string> entry_errors;  // per partition
  std::uint64_t records_per_answer = 10'000;

  // An entry without records: safeTime follows.
  void tick(std::int64_t us) { now += us; }
  LogPartition& make(const std::string& name) {
    if (!partitions.contains(name)) {
      order.push_back(name);
      LogPartition& made = partitions[name];
      made.id.bytes[0] = static_cast<std::uint8_t>(++ids_ & 0xFF);
      made.id.bytes[1] = static_cast<std::uint8_t>(ids_ >> 8);
      made.written_at = ++now;
    }
    return partitions[name];
  }
  std::int64_t push(const std::string& name, const std::string& payload = "{}") {
    LogPartition& partition = make(name);
    const std::int64_t ts = ++now;
    const std::string txn = "t" + std::to_string(ts);
    partition.records.push_back(
        {partition.next++, ts, std::make_shared<const std::string>(txn + payload), txn.size()});
    partition.written_at = ts;
    return ts;
  }
  void trim(const std::string& name, std::uint64_t start) {
    LogPartition& partition = partitions.at(name);
    while (!partition.records.empty() && partition.records.front().offset < start)
      partition.records.pop_front();
    partition.log_start = std::max(partition.log_start, start);
  }
  void remake(const std::string& name) {
    partitions.erase(name);
    order.erase(std::find(order.begin(), order.end(), name));
    make(name);
  }
  void forget(const std::string& name) {
    partitions.erase(name);
    order.erase(std::find(order.begin(), order.end(), name));
  }

  ChangedPage changed(const ChangedRequest& request) const {
    ChangedPage page;
    if (!exists) {
      page.error = kErrorUnknown;
      return page;
    }
    page.safe_time = pinned_safe.value_or(now);
    std::size_t at = request.after.empty() ? 0 : std::stoul(request.after);
    for (; at < order.size() && page.partitions.size() < request.limit; ++at) {
      const LogPartition& partition = partitions.at(order[at]);
      if (request.since_us && partition.written_at < *request.since_us) continue;
      page.partitions.push_back({order[at], partition.id, static_cast<std::int64_t>(partition.next) - 1,
                                 partition.log_start, partition.written_at});
    }
    if (at < order.size()) page.next = std::to_string(at);
    return page;
  }
  FetchedEntry fetch(const FetchRequest& request) const {
    FetchedEntry entry;
    if (const auto error = entry_errors.find(request.partition); error != entry_errors.end()) {
      entry.error = error->second;
      return entry;
    }
    const auto found = partitions.find(request.partition);
    if (found == partitions.end()) return entry;
    const LogPartition& partition = found->second;
    entry.high_watermark = partition.next;
    entry.log_start = partition.log_start;
    if (request.offset < partition.log_start || request.offset > partition.next) {
      entry.error = kErrorOutOfRange;
      return entry;
    }
    std::uint64_t bytes = 0;
    for (const LogRecord& record : partition.records) {
      if (record.offset < request.offset) continue;
      const std::string_view text = *record.text;
      const std::string_view payload = text.substr(record.id_size);
      bytes += std::max<std::size_t>(payload.size(), 1);
      const bool full = bytes > request.bytes_max || entry.records.size() >= records_per_answer;
      if (full && !entry.records.empty()) break;
      entry.records.push_back({record.offset, record.ts, text.substr(0, record.id_size), payload,
                               lake::Payload::json, record.text});
    }
    return entry;
  }

 private:
  int ids_ = 0;
};

// A committed window as a bucket would show it.
struct Shipped {
  WindowBounds bounds;
  std::vector<std::pair<std::string, std::uint64_t>> records;  // in object order
  std::vector<std::string> texts;
  std::vector<LostRange> lost;
  std::uint64_t weight = 0;
  bool operator==(const Shipped&) const = default;
};
inline Shipped shipped_of(const WindowPlan& plan) {
  Shipped out{plan.bounds, {}, {}, plan.lost, plan.weight};
  for (const PlannedPartition& partition : plan.partitions)
    for (const BufferedRecord& record : partition.records) {
      out.records.emplace_back(partition.name, record.offset);
      out.texts.push_back(std::string(record.transaction_id) + std::string(record.payload));
    }
  return out;
}

class Driver {
 public:
  Driver(FakeLog& log, EngineSettings settings) : log_(log), settings_(settings) { restart(); }

  FakeLog& log() { return log_; }
  WindowEngine& engine() { return *engine_; }
  EngineSettings& settings() { return settings_; }
  const EngineSettings& engine_settings() const { return settings_; }

  // A new owner: everything but the KV and the bucket is gone.
  void restart() {
    pending.clear();
    engine_ = std::make_unique<WindowEngine>(settings_, RestorePoint{committed, intent, checkpoint});
  }
  // Hands out the engine's actions into `pending`.
  std::size_t take() {
    auto actions = engine_->take_actions();
    for (Action& action : actions) {
      note(action);
      pending.push_back(std::move(action));
    }
    return actions.size();
  }
  // Performs one pending action.
  void perform(std::size_t index) {
    Action action = std::move(pending[index]);
    pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(index));
    std::visit([&](auto& a) { run(a); }, action);
  }
  // take and perform until only an idle wait is left (it stays pending), or `steps` are done.
  void settle(int steps = 10'000) {
    while (steps-- > 0) {
      take();
      const auto at = std::find_if(pending.begin(), pending.end(), [](const Action& action) {
        return !std::holds_alternative<IdleAction>(action);
      });
      if (at == pending.end()) return;
      perform(static_cast<std::size_t>(at - pending.begin()));
    }
  }
  // Ends the idle wait after `us` of the broker's clock, then settles.
  void idle(std::int64_t us) {
    log_.tick(us);
    for (std::size_t i = 0; i < pending.size(); ++i)
      if (std::holds_alternative<IdleAction>(pending[i])) {
        perform(i);
        break;
      }
    settle();
  }
  void idle_for(std::int64_t us, std::int64_t step = 2 * kSecond) {
    for (std::int64_t gone = 0; gone < us; gone += step) idle(step);
  }

  std::vector<std::pair<std::string, std::uint64_t>> all_shipped() const {
    std::vector<std::pair<std::string, std::uint64_t>> out;
    for (const Shipped& window : windows) out.insert(out.end(), window.records.begin(), window.records.end());
    return out;
  }

  // What the KV and the bucket hold.
  std::optional<Committed> committed;
  std::optional<Intent> intent;
  std::optional<Checkpoint> checkpoint;
  std::vector<Shipped> windows;
  std::map<std::uint64_t, Shipped> uploaded;

  std::vector<Action> pending;
  // What was seen going by.
  std::vector<std::string> trace;
  std::vector<ChangedRequest> passes;  // first pages
  std::vector<FetchAction> fetches;
  std::size_t seeks = 0, intents = 0, idles = 0;
  std::size_t calls_out_max = 0, entries_max = 0;

 private:
  template <class T>
  std::size_t out() const {
    return static_cast<std::size_t>(std::count_if(
        pending.begin(), pending.end(), [](const Action& a) { return std::holds_alternative<T>(a); }));
  }
  void note(const Action& action) {
    static const char* const kNames[] = {"discover",   "intent", "upload", "commit",
                                         "checkpoint", "idle",   "seek",   "fetch"};
    trace.emplace_back(kNames[action.index()]);
    if (const auto* a = std::get_if<DiscoverAction>(&action); a && a->request.after.empty())
      passes.push_back(a->request);
    if (const auto* a = std::get_if<FetchAction>(&action)) {
      fetches.push_back(*a);
      calls_out_max = std::max(calls_out_max, out<FetchAction>() + 1);
      entries_max = std::max(entries_max, a->requests.size());
    }
    seeks += std::holds_alternative<SeekAction>(action);
    intents += std::holds_alternative<IntentAction>(action);
    idles += std::holds_alternative<IdleAction>(action);
  }
  void run(DiscoverAction& a) { engine_->on_discovered(log_.changed(a.request)); }
  void run(FetchAction& a) {
    FetchAnswer answer;
    for (const FetchRequest& request : a.requests) answer.entries.push_back(log_.fetch(request));
    engine_->on_fetched(a.call, std::move(answer));
  }
  void run(SeekAction& a) {
    Seek seek(a.partition, a.bounds, a.t);
    while (!seek.finished()) seek.on_answer(log_.fetch(seek.request()));
    engine_->on_sought(a.seek, seek.result());
  }
  void run(IntentAction& a) {
    intent = make_intent(a.bounds, {}, "test");
    engine_->on_intent_written();
  }
  void run(UploadAction& a) {
    uploaded[a.plan->bounds.k] = shipped_of(*a.plan);
    engine_->on_uploaded();
  }
  void run(CommitAction& a) {
    committed = Committed{a.k, a.t_end, "", 0, 0, 0};
    windows.push_back(uploaded.at(a.k));
    engine_->on_committed();
  }
  void run(CheckpointAction& a) {
    checkpoint = a.checkpoint;
    engine_->on_checkpoint_done();
  }
  void run(IdleAction&) { engine_->on_idle_over(); }

  FakeLog& log_;
  EngineSettings settings_;
  std::unique_ptr<WindowEngine> engine_;
};

inline EngineSettings small_windows() {
  EngineSettings settings;
  settings.start = StartFrom::earliest;
  settings.max_window_us = 60 * kSecond;
  settings.target_bytes = 1ULL << 20;
  return settings;
}

}  // namespace queen::sink::test
