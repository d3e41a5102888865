// The broker of one node: wires the store, the logs, the core and the readers.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "base/invariant.h"
#include "broker/ack_flow.h"
#include "broker/admission.h"
#include "broker/append_waits.h"
#include "broker/boot.h"
#include "broker/broker.h"
#include "broker/call_counts.h"
#include "broker/checkpointer.h"
#include "broker/core.h"
#include "broker/dead_letters.h"
#include "broker/disk_gate.h"
#include "broker/garbage.h"
#include "broker/group_flow.h"
#include "broker/group_reads.h"
#include "broker/growth.h"
#include "broker/kv_sweep.h"
#include "broker/log_scrub.h"
#include "broker/node_gauges.h"
#include "broker/pop_flow.h"
#include "broker/reads.h"
#include "broker/resource_reads.h"
#include "broker/retention_scanner.h"
#include "broker/state_reads.h"
#include "broker/store_scrub.h"
#include "broker/timer_fire.h"
#include "broker/trace_sweep.h"
#include "broker/traces.h"
#include "broker/upkeep.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

constexpr std::size_t kReaderThreads = 4;
constexpr std::size_t kLookThreads = 2;
constexpr std::uint64_t kMapsWarnPct = 70;

// Up to here a lead is what clocks do; beyond it an operator should look at them.
constexpr std::int64_t kClockLeadWarnUs = 1'000'000;

LogClock::Follow follow_of(const Settings& settings) {
  return settings.wall_clock ? LogClock::Follow::wall : LogClock::Follow::monotonic;
}

struct HeldPermit final : WritePermit {
  explicit HeldPermit(Admission::Permit given) : permit(std::move(given)) {}
  Admission::Permit permit;
};

class Node final : public Broker {
 public:
  Node(Settings settings, disk::Disk& disk, Clock& clock, Random& random, Logger log,
       std::unique_ptr<Pool> fsync_pool, Executors& executors)
      : settings_(std::move(settings)),
        disk_(disk),
        clock_(clock),
        random_(random),
        log_(log),
        fsync_pool_(std::move(fsync_pool)),
        planner_(executors.thread("queen-planner")),
        writer_(executors.thread("queen-writer")),
        syncer_(executors.thread("queen-syncer")),
        apply_(executors.thread("queen-apply")),
        checkpoint_(executors.thread("queen-ckpt")),
        timers_(executors.thread("queen-timers")),
        upkeep_(executors.thread("queen-upkeep")),
        log_scrubber_(executors.thread("queen-scrub")),
        retention_(executors.thread("queen-retain")),
        figures_(executors.thread("queen-figures")),
        readers_(executors.pool("queen-read", kReaderThreads)),
        lookers_(executors.pool("queen-look", kLookThreads)),
        gate_(disk, settings_.directory,
              {settings_.disk_high_pct, settings_.disk_low_pct, settings_.reserve_bytes}, log),
        admission_({settings_.admit_bytes_max, settings_.admit_hold_us}, *timers_, random, log) {}
  ~Node() override { stop(); }

  void start(Opened opened) {
    opened_ = std::move(opened);
    reads_.emplace(*opened_.store, *opened_.logs, clock_, settings_.cipher);
    resources_.emplace(*opened_.store, *opened_.logs, clock_, *reads_);
    dead_letters_.emplace(*opened_.store, settings_.cipher);
    traces_.emplace(*opened_.store);
    state_.emplace(*opened_.store);
    start_checkpoints();
    const Core::Limits limits{
        settings_.batch_commands_max, settings_.pipeline,         settings_.command_queue_depth,
        settings_.batch_bytes_max,    settings_.durable_every_us, settings_.durable_every_bytes,
        settings_.zstd_level,         settings_.crash_points,     follow_of(settings_)};
    meter_.emplace(
        NodeMeter::Parts{*opened_.store, disk_, clock_, *figures_, *timers_, [this] { return gauges(); },
                         [this] { return pops_->parked(); }, [this] { return gate_.closed(); }},
        settings_.directory, settings_.meter, log_);
    counts_.emplace(*meter_, *opened_.store, clock_);
    core_.emplace(
        *opened_.store, *opened_.logs, *checkpointer_, gate_,
        Core::Threads{*planner_, *writer_, *syncer_, *apply_}, clock_, limits,
        [this](const machine::Entry& entry) { counts_->entry(entry); },
        [this](const machine::Applied& applied) { on_applied(applied); }, log_);
    group_reads_.emplace(*opened_.store, *opened_.logs, clock_);
    groups_.emplace(to_core(),
                    GroupFlow::Parts{*group_reads_, reads_->cold(), *readers_, *lookers_, clock_, random_});
    acks_.emplace([this](Pending pending) { admit(std::move(pending)); }, *reads_, *readers_,
                  settings_.entry_bytes_max);
    pops_.emplace(*core_, *reads_, *readers_, *timers_, clock_, random_);
    // What is applied tells it what was scheduled.
    timer_fire_.emplace(
        [this](machine::Command command, UniqueFunction<void(Answer<machine::Outcome>)> done) {
          admit({std::move(command), std::move(done)});
        },
        TimerFire::World{*state_, *timers_, clock_, random_, [this] { return core_->clock_lead_us(); },
                         settings_.cipher, log_},
        settings_.timers, settings_.entry_bytes_max);
    core_->start(EntryIndex{opened_.last.value + 1});
    start_duties();
    timer_fire_->start();
    meter_->start();
  }

  void submit(machine::Command command, UniqueFunction<void(Answer<machine::Outcome>)> done) override {
    submit_with(std::move(command), std::move(done), nullptr);
  }

  void submit_with(machine::Command command, UniqueFunction<void(Answer<machine::Outcome>)> done,
                   const std::shared_ptr<WritePermit>& permit) {
    if (std::holds_alternative<machine::DeadLetterDeleteCommand>(command.body))
      return delete_dead_letters(to_core(), std::move(command), clock_, random_, std::move(done));
    if (!std::holds_alternative<machine::PushCommand>(command.body) &&
        machine::estimated_bytes(command) > settings_.entry_bytes_max) {
      return done(tl::unexpected(Refusal{"bad_request", "the call is larger than an entry may be"}));
    }
    if (std::holds_alternative<machine::QueueDeleteCommand>(command.body))
      return delete_queue(to_core(), std::move(command), clock_, random_, std::move(done));
    if (std::holds_alternative<machine::SeekCommand>(command.body))
      return groups_->seek(std::move(command), std::move(done));
    if (std::holds_alternative<machine::SubscribeCommand>(command.body))
      return groups_->subscribe(std::move(command), std::move(done));
    admit({std::move(command), std::move(done)}, permit);
  }

  void admit(std::uint64_t bytes, UniqueFunction<void(Answer<std::shared_ptr<WritePermit>>)> done) override {
    admission_.enter(bytes, [this, done = std::move(done)](auto given) mutable {
      if (!given) return done(tl::unexpected(no_room()));
      done(std::shared_ptr<WritePermit>(std::make_shared<HeldPermit>(std::move(*given))));
    });
  }

  void push(machine::Command command, UniqueFunction<void(Answer<PushAnswer>)> done,
            std::shared_ptr<WritePermit> permit) override {
    auto answer = [this,
                   done = counts_->push(command, std::move(done))](Answer<machine::Outcome> outcome) mutable {
      if (!outcome) return done(tl::unexpected(outcome.error()));
      if (!outcome->code.empty()) return done(tl::unexpected(Refusal{outcome->code, outcome->error}));
      answer_push(std::move(std::get<machine::PushOutcome>(outcome->body)), std::move(done));
    };
    submit_with(std::move(command), std::move(answer), permit);
  }

  PopId pop(machine::Command command, bool wait, std::int64_t deadline,
            UniqueFunction<void(Answer<PopAnswer>)> done) override {
    auto counted = counts_->pop(command, std::move(done));
    return pops_->pop(std::move(command), wait, deadline, std::move(counted));
  }
  void cancel_pop(PopId id) override { pops_->cancel(id); }
  void hand_back(const std::string& tenant, const std::string& group, Uuid lease_id,
                 const PopAnswer& answer) override {
    pops_->hand_back(tenant, group, lease_id, answer);
  }
  void release_parked() override {
    released_ = true;
    pops_->release_parked();
    for (auto& wake : append_waits_.wake_all()) wake();
  }
  bool released_parked() const override { return released_; }

  void ack(machine::Command command, UniqueFunction<void(Answer<machine::Outcome>)> done) override {
    auto counted = counts_->ack(command, std::move(done));
    acks_->ack(std::move(command), std::move(counted));
  }

  Answer<std::vector<FetchEntryAnswer>> fetch(const std::string& tenant,
                                              std::span<const FetchEntry> entries) override {
    return reads_->fetch(tenant, entries);
  }
  Answer<std::vector<OffsetEntryAnswer>> offsets(const std::string& tenant,
                                                 std::span<const OffsetEntry> entries) override {
    return reads_->offsets(tenant, entries);
  }
  ChangedAnswer changed(const std::string& tenant, std::span<const ChangedEntry> entries) override {
    return reads_->changed(tenant, entries);
  }
  QueuesAnswer queues(const std::string& tenant, QueueDetail detail) override {
    return reads_->queues(tenant, detail);
  }

  void delete_group(std::string tenant, GroupDeletion deletion,
                    UniqueFunction<void(Answer<GroupDeleted>)> done) override {
    groups_->erase(std::move(tenant), std::move(deletion), std::move(done));
  }
  const DeadLetters& dead_letters() const override { return *dead_letters_; }
  const Traces& traces() const override { return *traces_; }
  const StateReads& state() const override { return *state_; }

  WaitId on_append(const std::string& tenant, std::vector<std::string> queues,
                   UniqueFunction<void()> wake) override {
    return append_waits_.add(tenant, std::move(queues), std::move(wake));
  }
  void cancel_wait(WaitId id) override { append_waits_.cancel(id); }
  void barrier(UniqueFunction<void(Answer<void>)> done) override {
    machine::Command command{std::string(kDefaultTenant), make_uuid_v7(clock_.wall_us(), random_),
                             machine::BarrierCommand{}};
    core_->submit({std::move(command), [done = std::move(done)](Answer<machine::Outcome> outcome) mutable {
                     if (!outcome) return done(tl::unexpected(outcome.error()));
                     done({});
                   }});
  }
  Resources& resources() override { return *resources_; }
  Groups& groups() override { return *group_reads_; }
  void look(UniqueFunction<void()> work) override { lookers_->post(std::move(work)); }
  void run(UniqueFunction<void()> work) override { readers_->post(std::move(work)); }

  const Meter& meter() const override { return *meter_; }
  Health health() override {
    Health out;
    out.stopped_cause = core_->stopped_cause();
    out.ready = out.stopped_cause.empty();
    out.role = out.ready ? core_->replicator().role() : replica::Role::stopped;
    out.term = core_->replicator().term();
    out.applied = core_->applied().value;
    out.store_scrub = scrub_->figures();
    out.commit = core_->replicator().committed().value;
    out.cold_claims = pops_->cold_claims();
    out.expired_leases = pops_->expired_leases();
    out.retention_holds = scanner_->holds().shown();
    out.retention_rounds = scanner_->settled_rounds();
    out.damaged = opened_.logs->damaged_files();
    out.apply_failure = core_->apply_failure();
    out.clock_lead_us = core_->clock_lead_us();
    add_warnings(out);
    return out;
  }
  int zstd_level() const override { return settings_.zstd_level; }
  std::uint64_t entry_bytes_max() const override { return settings_.entry_bytes_max; }

  void stop() override {
    if (stopped_.exchange(true)) return;
    if (!core_) return;
    pops_->release_parked();
    admission_.close();
    timers_->stop();
    figures_->stop();
    log_scrub_->stop();
    log_scrubber_->stop();
    upkeep_work_->stop();  // a copy on its way ends early
    upkeep_->stop();       // before the logs are closed and the last checkpoint lists their files
    retention_->stop();
    core_->stop();
    for (Executor* executor : {planner_.get(), writer_.get(), syncer_.get()}) executor->stop();
    lookers_->stop();
    readers_->stop();  // after the core: its last answers may still read messages
    apply_->stop();
    checkpoint_->stop();
    meter_->finish();
    if (core_->stopped_cause().empty()) {
      if (auto last = checkpointer_->finish(); !last)
        log_.error("last_checkpoint_failed", {{"why", last.error().what}});
    }
    if (auto closed = opened_.logs->close(); !closed)
      log_.error("close_failed", {{"why", closed.error().what}});
  }

 private:
  void start_checkpoints() {
    checkpointer_.emplace(
        *opened_.store, *opened_.checkpoint, *opened_.logs, *apply_, *checkpoint_,
        [this](const Error& cause) { checkpoint_failed(cause); }, log_, settings_.crash_points);
    checkpointer_->on_volume_full([this] { gate_.volume_full(); });
    checkpointer_->start(EntryIndex{opened_.durable.durable_index});
    for (const auto& [log, tail] : opened_.logs->recovery().replayed_tails)
      checkpointer_->applied(EntryIndex{tail}, {log}, 0);
    checkpointer_->applied(opened_.last, {},
                           0);  // the tails are in the order of the logs, not of the entries
  }

  // What a node does beside its calls.
  void start_duties() {
    upkeep_work_.emplace(*opened_.logs, *opened_.store, *checkpointer_, *upkeep_, settings_.upkeep,
                         UpkeepFailure{[this] { return core_->stopped_cause().empty(); },
                                       [this](const Error& cause) { core_->poison(cause); }},
                         log_);
    upkeep_work_->start();
    log_scrub_.emplace(*opened_.logs, *log_scrubber_, settings_.scrub_bytes_per_second, log_);
    log_scrub_->start();
    scanner_.emplace(
        *opened_.store, *opened_.logs, *retention_, settings_.retention,
        [this](machine::RetentionCommand body, UniqueFunction<void(bool)> done) {
          submit_retention(std::move(body), std::move(done));
        },
        [this] { return !core_->stopped_cause().empty(); }, log_);
    scanner_->start();
    scrub_.emplace(
        *opened_.store, *opened_.checkpoint, *checkpoint_,
        StoreScrub::Limits{settings_.scrub_every_us, settings_.scrub_rows_per_s},
        [this](const Error& damage) { end_damaged(*opened_.store, damage); }, log_);
    scrub_->start(random_);
    gate_.check();
    timers_->post_after(settings_.disk_check_us, [this] { tick_disk(); });
    kv_sweep_.emplace(to_core(), *opened_.store, *timers_, clock_, random_, settings_.kv_sweep_us,
                      settings_.kv_sweep_limit);
    kv_sweep_->start();
    garbage_.emplace(to_core(), *timers_, clock_, random_);
    garbage_->start();
    trace_sweep_.emplace(to_core(), *timers_, clock_, random_, settings_.traces);
    trace_sweep_->start();
  }

  // Through the gates of what grows (storage.md 24) to the core.
  void admit(Pending pending, const std::shared_ptr<WritePermit>& permit = nullptr) {
    if (!grows(pending.command)) return core_->submit(std::move(pending));
    if (gate_.closed())
      return pending.done(tl::unexpected(
          Refusal{"storage_full", gate_.refusal("the volume of the data directory is above its high mark")}));
    if (permit) {
      pending.permit = std::move(static_cast<HeldPermit&>(*permit).permit);
      return core_->submit(std::move(pending));
    }
    const std::uint64_t bytes = machine::estimated_bytes(pending.command);
    admission_.enter(bytes, [this, pending = std::move(pending)](auto given) mutable {
      if (given) {
        pending.permit = std::move(*given);
        return core_->submit(std::move(pending));
      }
      pending.done(tl::unexpected(no_room()));
    });
  }

  NodeGauges gauges() const {
    return read_gauges({*core_, *opened_.logs, *opened_.checkpoint, *checkpointer_, *pops_, gate_});
  }

  // Not ill, but on the way to it (HD-38).
  void add_warnings(Health& out) {
    if (gate_.closed())
      out.warnings.emplace_back("disk", "the volume of the data directory is above its high mark");
    if (const auto usage = opened_.checkpoint->usage(); usage.nearly_full())
      out.warnings.emplace_back("map", fmt::format("the store's file uses {} of the {} bytes of its map",
                                                   usage.used_bytes, usage.map_bytes));
    const auto logs = opened_.logs->stats();
    if (logs.maps * 100 > logs.maps_limit * kMapsWarnPct)
      out.warnings.emplace_back(
          "map", fmt::format("{} index files of the logs are mapped, and vm.max_map_count is {}", logs.maps,
                             logs.maps_limit));
    if (auto hold = scanner_->holds().warning(logs.bytes))
      out.warnings.emplace_back("retention_hold", std::move(*hold));
    if (out.clock_lead_us > kClockLeadWarnUs)
      out.warnings.emplace_back(
          "clock_lead",
          fmt::format("log time is {} ms ahead of the clock of this machine", out.clock_lead_us / 1000));
  }

  Refusal no_room() const {
    if (stopped_) return {"retry", "this node is stopping"};
    return {"overloaded", "too many writes wait for the disk"};
  }

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
    readers_->post([this, outcome = std::move(outcome), answer = std::move(answer),
                    done = std::move(done)]() mutable {
      for (std::size_t b = 0; b < answer.batches.size(); ++b) {
        for (auto& item : answer.batches[b]) {
          if (item.status != PushItemAnswer::Status::duplicate) continue;
          const auto original =
              reads_->id_of(outcome.batches[b].pid, outcome.batches[b].queue_id, item.offset);
          // Damage is never taken for what is gone (CR-5). What was new is stored, and a repeat finds it.
          if (!original)
            return done(tl::unexpected(Refusal{
                "internal", fmt::format("the original of a duplicate, offset {}, cannot be read from the log",
                                        item.offset)}));
          item.message_id = *original;
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
    for (const auto& [tenant, queue, at] : applied.later) pops_->wake_at({tenant, queue}, at);
    if (applied.timer_due) timer_fire_->scheduled(*applied.timer_due);
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
    gate_.set_holder(scanner_->holds().warning(opened_.logs->stats().bytes).value_or(""));
    timers_->post_after(settings_.disk_check_us, [this] { tick_disk(); });
  }

  void submit_retention(machine::RetentionCommand body, UniqueFunction<void(bool)> done) {
    machine::Command command{std::string(kDefaultTenant), make_uuid_v7(clock_.wall_us(), random_),
                             std::move(body)};
    core_->submit(
        {std::move(command), [done = std::move(done)](const Answer<machine::Outcome>& outcome) mutable {
           done(outcome.has_value() && outcome->code.empty());
         }});
  }

  const Settings settings_;
  disk::Disk& disk_;
  Clock& clock_;
  Random& random_;
  Logger log_;
  std::unique_ptr<Pool> fsync_pool_;
  Opened opened_;
  std::unique_ptr<Executor> planner_, writer_, syncer_, apply_, checkpoint_, timers_, upkeep_, log_scrubber_,
      retention_, figures_;
  std::unique_ptr<Pool> readers_, lookers_;
  DiskGate gate_;
  Admission admission_;
  AppendWaits append_waits_;
  std::optional<Reads> reads_;
  std::optional<ResourceReads> resources_;
  std::optional<DeadLetters> dead_letters_;
  std::optional<Traces> traces_;
  std::optional<StateReads> state_;
  std::optional<Checkpointer> checkpointer_;
  std::optional<StoreScrub> scrub_;
  std::optional<NodeMeter> meter_;
  std::optional<CallCounts> counts_;
  std::optional<Core> core_;
  std::optional<PopFlow> pops_;
  std::optional<AckFlow> acks_;
  std::optional<GroupReads> group_reads_;
  std::optional<GroupFlow> groups_;
  std::optional<GarbageTick> garbage_;
  std::optional<KvSweep> kv_sweep_;
  std::optional<TraceSweep> trace_sweep_;
  std::optional<TimerFire> timer_fire_;
  std::optional<Upkeep> upkeep_work_;
  std::optional<LogScrub> log_scrub_;
  std::optional<RetentionScanner> scanner_;
  std::atomic<bool> stopped_{false}, released_{false};
};

}  // namespace

Result<std::unique_ptr<Broker>> Broker::open(Settings settings, disk::Disk& disk, Clock& clock,
                                             Random& random, Logger log,
                                             const std::function<void(double)>& progress) {
  std::unique_ptr<Executors> threads;
  if (settings.executors == nullptr) threads = std::make_unique<ThreadExecutors>(clock);
  Executors& executors = settings.executors != nullptr ? *settings.executors : *threads;
  auto pool = executors.pool("queen-fsync", static_cast<std::size_t>(settings.fsync_threads));
  auto opened = open_directory(settings, disk, *pool, clock, progress, log);
  if (!opened) return std::move(opened).error();
  auto node =
      std::make_unique<Node>(std::move(settings), disk, clock, random, log, std::move(pool), executors);
  node->start(std::move(*opened));
  return std::unique_ptr<Broker>(std::move(node));
}

}  // namespace queen::broker
