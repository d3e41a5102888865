// The broker of one node: wires the store, the logs, the core and the readers.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "base/invariant.h"
#include "broker/append_waits.h"
#include "broker/boot.h"
#include "broker/broker.h"
#include "broker/checkpointer.h"
#include "broker/core.h"
#include "broker/disk_gate.h"
#include "broker/filing.h"
#include "broker/garbage.h"
#include "broker/log_scrub.h"
#include "broker/pop_flow.h"
#include "broker/reads.h"
#include "broker/store_scrub.h"
#include "broker/thread_runner.h"
#include "broker/upkeep.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

constexpr std::size_t kReaderThreads = 4;
constexpr std::int64_t kDiskCheckUs = 100'000;
constexpr std::uint64_t kMapsWarnPct = 70;

bool needs_space(const machine::Command& command) {
  if (std::holds_alternative<machine::PushCommand>(command.body)) return true;
  const auto* kv = std::get_if<machine::KvCommand>(&command.body);
  if (kv == nullptr) return false;
  return std::any_of(kv->ops.begin(), kv->ops.end(), [](const machine::KvOp& op) {
    return op.kind == machine::KvKind::put || op.kind == machine::KvKind::put_if_absent;
  });
}

class Node final : public Broker {
 public:
  Node(Settings settings, disk::Disk& disk, Clock& clock, Random& random, Logger log,
       std::unique_ptr<ThreadPool> fsync_pool)
      : settings_(std::move(settings)),
        clock_(clock),
        random_(random),
        log_(log),
        fsync_pool_(std::move(fsync_pool)),
        apply_("queen-apply", clock),
        checkpoint_("queen-ckpt", clock),
        timers_("queen-timers", clock),
        upkeep_("queen-upkeep", clock),
        log_scrubber_("queen-scrub", clock),
        readers_("queen-read", kReaderThreads),
        gate_(disk, settings_.directory, settings_.disk_high_pct, settings_.disk_low_pct, log) {}
  ~Node() override { stop(); }

  void start(Opened opened) {
    opened_ = std::move(opened);
    reads_.emplace(*opened_.store, *opened_.logs, clock_);
    checkpointer_.emplace(
        *opened_.store, *opened_.checkpoint, *opened_.logs, apply_, checkpoint_,
        [this](const Error& cause) { checkpoint_failed(cause); }, log_, settings_.crash_points);
    checkpointer_->start(EntryIndex{opened_.durable.durable_index});
    for (const auto& [log, tail] : opened_.logs->recovery().replayed_tails)
      checkpointer_->applied(EntryIndex{tail}, {log}, 0);
    checkpointer_->applied(opened_.last, {},
                           0);  // the tails are in the order of the logs, not of the entries
    const Core::Limits limits{settings_.batch_commands_max,  settings_.pipeline,
                              settings_.command_queue_depth, settings_.batch_bytes_max,
                              settings_.durable_every_us,    settings_.durable_every_bytes,
                              settings_.zstd_level,          settings_.crash_points};
    core_.emplace(
        *opened_.store, *opened_.logs, *checkpointer_, apply_, clock_, limits,
        [this](const machine::Applied& applied) { on_applied(applied); }, log_);
    pops_.emplace(*core_, *reads_, *opened_.store, readers_, timers_, clock_, random_);
    core_->start(EntryIndex{opened_.last.value + 1});
    upkeep_work_.emplace(*opened_.logs, *opened_.store, *checkpointer_, *core_, upkeep_, settings_.upkeep,
                         log_);
    upkeep_work_->start();
    log_scrub_.emplace(*opened_.logs, log_scrubber_, settings_.scrub_bytes_per_second, log_);
    log_scrub_->start();
    scrub_.emplace(
        *opened_.store, *opened_.checkpoint, checkpoint_,
        StoreScrub::Limits{settings_.scrub_every_us, settings_.scrub_rows_per_s},
        [this](const Error& damage) { end_damaged(*opened_.store, damage); }, log_);
    scrub_->start(random_);
    gate_.check();
    timers_.post_after(kDiskCheckUs, [this] { tick_disk(); });
    timers_.post_after(settings_.kv_sweep_us, [this] { tick_kv_sweep(); });
    garbage_.emplace(to_core(), timers_, clock_, random_);
    garbage_->start();
  }

  void submit(machine::Command command, UniqueFunction<void(Answer<machine::Outcome>)> done) override {
    if (gate_.closed() && needs_space(command)) {
      return done(
          tl::unexpected(Refusal{"storage_full", "the volume of the data directory is above its high mark"}));
    }
    if (!std::holds_alternative<machine::PushCommand>(command.body) &&
        machine::estimated_bytes(command) > settings_.entry_bytes_max) {
      return done(tl::unexpected(Refusal{"bad_request", "the call is larger than an entry may be"}));
    }
    if (std::holds_alternative<machine::QueueDeleteCommand>(command.body))
      return delete_queue(to_core(), std::move(command), clock_, random_, std::move(done));
    core_->submit({std::move(command), std::move(done)});
  }

  void push(machine::Command command, UniqueFunction<void(Answer<PushAnswer>)> done) override {
    submit(std::move(command), [this, done = std::move(done)](Answer<machine::Outcome> outcome) mutable {
      if (!outcome) return done(tl::unexpected(outcome.error()));
      if (!outcome->code.empty()) return done(tl::unexpected(Refusal{outcome->code, outcome->error}));
      answer_push(std::move(std::get<machine::PushOutcome>(outcome->body)), std::move(done));
    });
  }

  PopId pop(machine::Command command, bool wait, std::int64_t deadline,
            UniqueFunction<void(Answer<PopAnswer>)> done) override {
    return pops_->pop(std::move(command), wait, deadline, std::move(done));
  }
  void cancel_pop(PopId id) override { pops_->cancel(id); }
  void hand_back(const std::string& tenant, const std::string& group, Uuid lease_id,
                 const PopAnswer& answer) override {
    pops_->hand_back(tenant, group, lease_id, answer);
  }
  void release_parked() override { pops_->release_parked(); }

  void ack(machine::Command command, UniqueFunction<void(Answer<machine::Outcome>)> done) override {
    auto& ack = std::get<machine::AckCommand>(command.body);
    const bool may_file = std::any_of(ack.items.begin(), ack.items.end(), [](const machine::AckItem& item) {
      return item.status == machine::AckStatus::failed || item.status == machine::AckStatus::dlq;
    });
    if (!may_file) return submit(std::move(command), std::move(done));
    // A dead letter carries its payload, which only the log has.
    readers_.post([this, command = std::move(command), done = std::move(done)]() mutable {
      auto& items = std::get<machine::AckCommand>(command.body);
      switch (fill_payloads(*reads_, command.tenant, items, settings_.entry_bytes_max)) {
        case Filing::too_large:
          return done(tl::unexpected(Refusal{
              "bad_request", "the messages that this call may file are larger than an entry may be"}));
        case Filing::unreadable:
          return done(tl::unexpected(
              Refusal{"internal", "a message that this call may file cannot be read from the log"}));
        case Filing::ready:
          break;
      }
      submit(std::move(command), std::move(done));
    });
  }

  Answer<std::vector<FetchEntryAnswer>> fetch(const std::string& tenant,
                                              std::span<const FetchEntry> entries) override {
    return reads_->fetch(tenant, entries);
  }
  ChangedAnswer changed(const std::string& tenant, std::span<const ChangedEntry> entries) override {
    return reads_->changed(tenant, entries);
  }
  QueuesAnswer queues(const std::string& tenant, QueueDetail detail) override {
    return reads_->queues(tenant, detail);
  }

  WaitId on_append(const std::string& tenant, std::vector<std::string> queues,
                   UniqueFunction<void()> wake) override {
    return append_waits_.add(tenant, std::move(queues), std::move(wake));
  }
  void cancel_wait(WaitId id) override { append_waits_.cancel(id); }
  void run(UniqueFunction<void()> work) override { readers_.post(std::move(work)); }

  Health health() override {
    Health out;
    out.stopped_cause = core_->stopped_cause();
    out.ready = out.stopped_cause.empty();
    out.role = out.ready ? core_->replicator().role() : replica::Role::stopped;
    out.term = core_->replicator().term();
    out.applied = core_->applied().value;
    out.store_scrub = scrub_->figures();
    out.commit = core_->replicator().committed().value;
    if (gate_.closed())
      out.warnings.emplace_back("disk", "the volume of the data directory is above its high mark");
    out.damaged = opened_.logs->damaged_files();
    const auto logs = opened_.logs->stats();
    if (logs.maps * 100 > logs.maps_limit * kMapsWarnPct)
      out.warnings.emplace_back(
          "map", fmt::format("{} index files of the logs are mapped, and vm.max_map_count is {}", logs.maps,
                             logs.maps_limit));
    return out;
  }
  int zstd_level() const override { return settings_.zstd_level; }
  std::uint64_t entry_bytes_max() const override { return settings_.entry_bytes_max; }

  void stop() override {
    if (stopped_.exchange(true)) return;
    if (!core_) return;
    pops_->release_parked();
    timers_.stop();
    log_scrub_->stop();
    log_scrubber_.stop();
    upkeep_work_->stop();  // a copy on its way ends early
    upkeep_.stop();        // before the logs are closed and the last checkpoint lists their files
    core_->stop();
    readers_.stop();  // after the core: its last answers may still read messages
    apply_.stop();
    checkpoint_.stop();
    if (core_->stopped_cause().empty()) {
      if (auto last = checkpointer_->finish(); !last)
        log_.error("last_checkpoint_failed", {{"why", last.error().what}});
    }
    if (auto closed = opened_.logs->close(); !closed)
      log_.error("close_failed", {{"why", closed.error().what}});
  }

 private:
  // Names of original messages come from the log: only answers that hold a duplicate wait for it.
  void answer_push(machine::PushOutcome outcome, UniqueFunction<void(Answer<PushAnswer>)> done) {
    PushAnswer answer;
    bool duplicates = false;
    for (const auto& batch : outcome.batches) {
      auto& items = answer.batches.emplace_back();
      items.reserve(batch.items.size());
      for (const auto& item : batch.items) {
        using Planned = machine::PushItemOutcome::Status;
        using Given = PushItemAnswer::Status;
        duplicates = duplicates || item.status == Planned::duplicate;
        items.push_back({item.status == Planned::queued      ? Given::queued
                         : item.status == Planned::duplicate ? Given::duplicate
                                                             : Given::error,
                         std::nullopt, item.offset});
      }
    }
    if (!duplicates) return done(std::move(answer));
    readers_.post([this, outcome = std::move(outcome), answer = std::move(answer),
                   done = std::move(done)]() mutable {
      for (std::size_t b = 0; b < answer.batches.size(); ++b) {
        for (auto& item : answer.batches[b]) {
          if (item.status != PushItemAnswer::Status::duplicate) continue;
          const auto original = reads_->one(outcome.batches[b].pid, outcome.batches[b].queue_id, item.offset);
          if (original) item.message_id = original->messages.front().id;
        }
      }
      done(std::move(answer));
    });
  }

  void on_applied(const machine::Applied& applied) {
    for (const auto& [tenant, queue] : applied.queues) {
      const QueueName name{tenant, queue};
      pops_->wake(name);
      for (auto& wake : append_waits_.wake(name)) wake();
    }
  }

  Submit to_core() {
    return [this](machine::Command command, UniqueFunction<void(Answer<machine::Outcome>)> done) {
      core_->submit({std::move(command), std::move(done)});
    };
  }

  void checkpoint_failed(const Error& cause) {
    if (cause.code == Errc::corrupt) end_damaged(*opened_.store, cause);
    core_->poison(Error{cause.code, "store checkpoint failed: " + cause.what});
  }

  void tick_disk() {
    gate_.check();
    timers_.post_after(kDiskCheckUs, [this] { tick_disk(); });
  }

  void tick_kv_sweep() {
    machine::Command sweep{std::string(kDefaultTenant), make_uuid_v7(clock_.wall_us(), random_),
                           machine::KvSweepCommand{settings_.kv_sweep_limit}};
    core_->submit({std::move(sweep), [](const Answer<machine::Outcome>&) {}});
    timers_.post_after(settings_.kv_sweep_us, [this] { tick_kv_sweep(); });
  }

  const Settings settings_;
  Clock& clock_;
  Random& random_;
  Logger log_;
  std::unique_ptr<ThreadPool> fsync_pool_;
  Opened opened_;
  ThreadExecutor apply_, checkpoint_, timers_, upkeep_, log_scrubber_;
  ThreadPool readers_;
  DiskGate gate_;
  AppendWaits append_waits_;
  std::optional<Reads> reads_;
  std::optional<Checkpointer> checkpointer_;
  std::optional<StoreScrub> scrub_;
  std::optional<Core> core_;
  std::optional<PopFlow> pops_;
  std::optional<GarbageTick> garbage_;
  std::optional<Upkeep> upkeep_work_;
  std::optional<LogScrub> log_scrub_;
  std::atomic<bool> stopped_{false};
};

}  // namespace

Result<std::unique_ptr<Broker>> Broker::open(Settings settings, disk::Disk& disk, Clock& clock,
                                             Random& random, Logger log,
                                             const std::function<void(double)>& progress) {
  auto pool = std::make_unique<ThreadPool>("queen-fsync", static_cast<std::size_t>(settings.fsync_threads));
  auto opened = open_directory(settings, disk, *pool, clock, progress, log);
  if (!opened) return std::move(opened).error();
  auto node = std::make_unique<Node>(std::move(settings), disk, clock, random, log, std::move(pool));
  node->start(std::move(*opened));
  return std::unique_ptr<Broker>(std::move(node));
}

}  // namespace queen::broker
