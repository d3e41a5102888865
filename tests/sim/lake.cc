#include "lake.h"

#include <algorithm>

#include "base/text.h"
#include "broker/kv_reads.h"
#include "checkers/lake_oracle.h"
#include "s3/digests.h"
#include "sink/broker_port.h"
#include "sink/manifest.h"

namespace queen::sim {
namespace {

constexpr std::int64_t kCallTimeoutUs = 5 * kSecondUs;
constexpr std::int64_t kLookEveryUs = 700 * kMsUs;
constexpr std::int64_t kRetentionUsMin = 1'900 * kMsUs;  // before then nothing is lost

// What the status said of a queue at some moment.
struct StatusSeen {
  std::int64_t complete_through = 0;
  std::int64_t committed_to = 0;  // end of the last window that this node knew of
};

std::optional<std::int64_t> time_field(std::string_view json, std::string_view name) {
  const std::string key = fmt::format("\"{}\":\"", name);
  const std::size_t at = json.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t from = at + key.size();
  return parse_iso_micros(json.substr(from, json.find('"', from) - from));
}

class Lake final : public Workload {
 public:
  Lake(Scene& scene, LakePlan plan) : scene_(scene), plan_(std::move(plan)), tasks_(scene.clients.lane) {}

  std::string_view name() const override { return "lake"; }
  void start() override;
  bool ended() const override { return tasks_.ended(); }
  void drain() override;
  void check() override;

 private:
  const sink::UnitSettings& unit() const { return *plan_.sink->environment; }
  Task<void> watch(Client& client);
  Task<void> wait_for_bucket(Client& client);
  Task<std::optional<sink::Committed>> pointer(Client& client, const std::string& queue);
  bool reached(const std::string& queue, const std::optional<sink::Committed>& pointer) const;
  void look_at_status();
  void look_at(const std::string& status);
  void read_pointers();
  void on_put(const std::string& key, const Bytes& body);
  bool was_rewritten(const std::string& queue) const;
  std::string data_root(const std::string& queue) const;
  void check_queue(const std::string& queue);
  void check_lag(const std::string& queue);
  PartitionLife life_of(const PartitionName& where, const PartitionRead& log) const;
  sink::LakePath path(const std::string& queue) const {
    return {unit().prefix, std::string(kDefaultTenant), queue};
  }

  Scene& scene_;
  LakePlan plan_;
  Tasks tasks_;
  std::unique_ptr<Client> watcher_;
  std::map<std::string, sink::Committed> pointers_;
  std::map<std::string, std::vector<StatusSeen>> seen_;
};

void Lake::start() {
  scene_.bucket.on_put = [this](const std::string& key, const Bytes& body) { on_put(key, body); };
  watcher_ = scene_.new_client();
  tasks_.start(watch(*watcher_));
}

// A window that is written ends below what this node had applied, less the guard.
void Lake::on_put(const std::string& key, const Bytes& body) {
  if (key.find("/windows/") == std::string::npos || !scene_.node.up()) return;
  const auto manifest = sink::parse_manifest(body);
  if (!manifest) return scene_.story.violate("manifests can be read", "{}: {}", key, manifest.error().what);
  scene_.story.note("bucket", "{}: [{}, {}), {} records", key, manifest->bounds.t_start,
                    manifest->bounds.t_end, manifest->records);
  const std::int64_t safe = scene_.node.safe_time_us() - plan_.sink->node.safe_guard_us;
  if (manifest->bounds.t_end > safe)
    scene_.story.violate("no window above safe time", "{}: ends at {}, {} was safe", key,
                         manifest->bounds.t_end, safe);
}

Task<void> Lake::watch(Client& client) {
  while (!scene_.quiet && !scene_.story.failed()) {
    look_at_status();
    co_await client.sleep(kLookEveryUs);
  }
}

void Lake::look_at_status() {
  for (std::size_t i = 0; scene_.node.up() && i < scene_.node.sinks(); ++i)
    look_at(scene_.node.sink_status(i));
}

void Lake::look_at(const std::string& status) {
  for (const auto& queue : unit().queues) {
    const std::size_t at = status.find(fmt::format("{{\"name\":\"{}\"", queue));
    if (at == std::string::npos) continue;
    const std::string_view row = std::string_view(status).substr(at, status.find("lagSeconds", at) - at);
    const auto through = time_field(row, "completeThrough");
    if (through) seen_[queue].push_back({*through, time_field(row, "tEnd").value_or(INT64_MIN)});
  }
}

Task<std::optional<sink::Committed>> Lake::pointer(Client& client, const std::string& queue) {
  machine::KvCommand body;
  machine::KvOp get;
  get.ns = "queen-s3";
  get.key = sink::committed_key(unit().sink, queue);
  body.ops.push_back(std::move(get));
  const auto said = co_await submit<machine::KvOutcome>(client, std::move(body), kCallTimeoutUs);
  if (!said || !said->code.empty() || said->outcome.ops.empty() || !said->outcome.ops[0].row)
    co_return std::nullopt;
  const auto committed = sink::parse_committed(said->outcome.ops[0].row->value);
  if (!committed) {
    scene_.story.violate("the commit pointer can be read", "{}: {}", queue, committed.error().what);
    co_return std::nullopt;
  }
  co_return *committed;
}

bool Lake::reached(const std::string& queue, const std::optional<sink::Committed>& pointer) const {
  std::int64_t last = INT64_MIN;
  for (const auto& [where, log] : scene_.ledger.logs())
    if (where.queue == queue && !log.records.empty()) last = std::max(last, log.records.back().ts_us);
  if (last == INT64_MIN) return true;
  if (unit().start == sink::StartFrom::latest && !pointer)
    return true;  // what there is may be too old for it
  if (pointer && pointer->t_end > last) return true;
  // Retention was faster, and nothing is left to commit.
  const auto seen = seen_.find(queue);
  return !plan_.retained_queues.contains(queue) && seen != seen_.end() &&
         seen->second.back().complete_through > last;
}

void Lake::drain() {
  scene_.ledger.check(scene_.node);
  tasks_.start(wait_for_bucket(*watcher_));
}

Task<void> Lake::wait_for_bucket(Client& client) {
  for (const auto& queue : unit().queues) {
    while (!scene_.story.failed()) {
      const auto committed = co_await pointer(client, queue);
      if (committed) pointers_[queue] = *committed;
      if (reached(queue, committed)) break;
      look_at_status();
      co_await client.sleep(kLookEveryUs);
    }
  }
}

PartitionLife Lake::life_of(const PartitionName& where, const PartitionRead& log) const {
  PartitionLife life{where.partition, {}};
  // A loss that was found and not committed may not be found again by the life that follows (s3-sink.md 12).
  const auto& begun = scene_.story.restored_us();
  const bool one_run = begun.size() == unit().queues.size() && begun.back() < kRetentionUsMin;
  const Fate fate = one_run ? Fate::lost_maybe : Fate::deleted;
  for (const auto& gone : scene_.ledger.gone(where, log.log_start)) {
    // A sink that starts with what is new need not ship what may be older.
    const bool held = plan_.held_queues.contains(where.queue);
    const bool may_be_old = !gone.stamp_known && unit().start == sink::StartFrom::latest;
    life.records.push_back({gone.offset, gone.ts_us, gone.transaction_id, gone.payload,
                            may_be_old ? Fate::deleted
                            : held     ? Fate::kept
                                       : fate,
                            gone.stamp_known});
  }
  for (const auto& record : log.records)
    life.records.push_back({record.offset, record.ts_us, record.transaction_id, record.payload, Fate::kept});
  return life;
}

// A redo after retention has less to write than was uploaded before, under the same key. An upload of before
// that comes late then is what stays; of a redo with nothing left that is the manifest alone.
bool Lake::was_rewritten(const std::string& queue) const {
  const std::string example = sink::manifest_key(path(queue), 1);
  const std::string manifests = example.substr(0, example.rfind('/') + 1);
  std::map<std::string, const Bytes*> first;
  for (const auto& put : scene_.bucket.puts()) {
    if (!put.key.starts_with(data_root(queue)) && !put.key.starts_with(manifests)) continue;
    if (*first.emplace(put.key, put.body.get()).first->second != *put.body) return true;
  }
  return false;
}

std::string Lake::data_root(const std::string& queue) const {
  const std::string example = sink::data_key(path(queue), unit().align, {}, "x");
  return example.substr(0, example.rfind("/dt=") + 1);
}

void Lake::check_queue(const std::string& queue) {
  if (!plan_.retained_queues.contains(queue) && was_rewritten(queue)) return;
  LakeQuestion question;
  for (const auto& [key, body] : scene_.bucket.objects()) question.objects[key] = *body;
  question.path = path(queue);
  question.sink = unit().sink;
  question.align = unit().align;
  for (const auto& [where, log] : scene_.ledger.logs())
    if (where.queue == queue) question.log.push_back(life_of(where, log));
  const auto pointer = pointers_.find(queue);
  if (pointer != pointers_.end()) question.pointer = pointer->second;
  if (unit().start == sink::StartFrom::latest) {
    const auto first = question.objects.find(sink::manifest_key(question.path, 1));
    if (first == question.objects.end()) return;
    if (const auto manifest = sink::parse_manifest(first->second))
      question.ships_from = manifest->bounds.t_start;
    question.in_flight =
        LakeQuestion::InFlight::allowed;  // without a window yet there was nothing to wait for
  }
  if (!plan_.retained_queues.contains(queue)) {
    question.names_shipped = LakeQuestion::NamesShipped::allowed;
    question.in_flight = LakeQuestion::InFlight::allowed;  // the check waits for what is kept
  } else {
    for (const auto& put : scene_.bucket.puts())
      if (put.key.starts_with(data_root(queue)))
        question.puts.emplace_back(put.key, s3::sha256_hex(*put.body));
  }
  const LakeAnswer answer = check_lake(question);
  for (const auto& complaint : answer.complaints) {
    // What was uploaded before a redo that retention left less to write, in an object of its own.
    if (complaint.starts_with("orphan") && !plan_.retained_queues.contains(queue)) continue;
    return scene_.story.violate("the lake is right", "{}: {}", queue, complaint);
  }
}

// What the status called complete was complete: nothing stamped below was outside the windows committed by
// then.
void Lake::check_lag(const std::string& queue) {
  for (const auto& [where, log] : scene_.ledger.logs()) {
    if (where.queue != queue) continue;
    for (const auto& record : log.records)
      for (const auto& seen : seen_[queue])
        if (record.ts_us < seen.complete_through && record.ts_us >= seen.committed_to &&
            unit().start == sink::StartFrom::earliest)
          return scene_.story.violate(
              "lag is never understated", "{}/{} offset {} stamped {}: {} was complete, {} committed", queue,
              where.partition, record.offset, record.ts_us, seen.complete_through, seen.committed_to);
  }
}

// As the node has them now: the sink went on meanwhile.
void Lake::read_pointers() {
  const broker::KvReads rows(scene_.node.broker().state());
  for (const auto& queue : unit().queues) {
    broker::KvListQuery query;
    query.ns = sink::kKvNamespace;
    query.prefix = sink::committed_key(unit().sink, queue);
    for (const auto& row : rows.list(std::string(kDefaultTenant), query, 0).rows) {
      const auto committed = sink::parse_committed(row.row.value);
      if (row.key == query.prefix && committed) pointers_[queue] = *committed;
    }
  }
}

void Lake::check() {
  read_pointers();
  for (const auto& queue : unit().queues) {
    if (scene_.story.failed()) return;
    check_queue(queue);
    check_lag(queue);
  }
}

}  // namespace

std::unique_ptr<Workload> make_lake(Scene& scene, LakePlan plan) {
  return std::make_unique<Lake>(scene, std::move(plan));
}

}  // namespace queen::sim
