#include "mini_node.h"

#include "broker/placement.h"
#include "machine/apply.h"
#include "qlog/scrub.h"
#include "store/scrub.h"

namespace queen::crash {

MiniNode::MiniNode(disk::Disk& disk, ManualClock& clock, NodeOptions options, LogSink& log)
    : disk_(disk), clock_(clock), log_(log, "crash"), checkpoints_(disk) {
  settings_.directory = "/data";
  settings_.logs = std::move(options.logs);
  settings_.upkeep = options.upkeep;
  settings_.checkpoint_home = &checkpoints_;
}

MiniNode::~MiniNode() {
  kill();
}

void MiniNode::kill() {
  planner_.reset();
  upkeep_.reset();
  checkpointer_.reset();
  apply_executor_.reset();
  writer_executor_.reset();
  upkeep_executor_.reset();
  opened_.reset();
}

void MiniNode::fail(const Error& error) {
  if (cause_.empty()) cause_ = error.what;
}

Status MiniNode::open() {
  kill();
  cause_.clear();
  auto opened = broker::open_directory(settings_, disk_, runner_, clock_, {}, log_);
  if (!opened) return opened.error();
  opened_.emplace(std::move(*opened));
  apply_executor_.emplace(clock_);
  writer_executor_.emplace(clock_);
  upkeep_executor_.emplace(clock_);
  checkpointer_ = std::make_unique<broker::Checkpointer>(
      store(), *opened_->checkpoint, logs(), *apply_executor_, *writer_executor_,
      [this](const Error& error) { fail(error); }, log_);
  checkpointer_->start(EntryIndex{opened_->durable.durable_index});
  for (const auto& [log, tail] : logs().recovery().replayed_tails)
    checkpointer_->applied(EntryIndex{tail}, {log}, 0);
  checkpointer_->applied(opened_->last, {}, 0);  // the tails are in the order of the logs
  upkeep_ = std::make_unique<broker::Upkeep>(
      logs(), store(), *checkpointer_, *upkeep_executor_, settings_.upkeep,
      broker::UpkeepFailure{[this] { return cause_.empty(); }, [this](const Error& error) { fail(error); }},
      log_);
  upkeep_->start();
  planner_ = std::make_unique<machine::Planner>(store());
  log_clock_.emplace(clock_, broker::LogClock::Follow::monotonic);
  log_clock_->raise(machine::safe_time_us(store()));
  applied_ = opened_->last.value;
  next_ = applied_ + 1;
  return {};
}

Planned MiniNode::plan(const std::vector<machine::Command>& commands) {
  std::vector<const machine::Command*> pointers;
  for (const auto& command : commands) pointers.push_back(&command);
  auto cycle = planner_->plan(pointers, EntryIndex{next_}, log_clock_->now_us());
  Planned planned;
  planned.outcomes = std::move(cycle.outcomes);
  if (!cycle.entry) return planned;
  log_clock_->raise(cycle.entry->now_us);
  planned.index = next_++;
  planned.entry = std::make_shared<const machine::Entry>(std::move(*cycle.entry));
  auto compressed = broker::compress_unsettled(*planned.entry, compressors_, 1);
  const auto gate = store().read_gate();
  const broker::LogExists exists = [this](LogId log) { return logs().exists(log); };
  planned.proposal =
      broker::make_proposal(planned.entry, std::move(compressed), {logs().layout(), store(), exists});
  return planned;
}

Status MiniNode::write_and_sync(const std::vector<Planned>& group) {
  std::vector<qlog::EntryToWrite> entries;
  for (const auto& planned : group) {
    const auto& proposal = *planned.proposal;
    entries.push_back(
        {EntryIndex{planned.index}, 0, proposal.now_us, proposal.entry, proposal.messages, proposal.touched});
  }
  const auto written = logs().write_group(entries);
  if (!written) {
    if (written.error().code == Errc::full || written.error().code == Errc::busy) {
      planner_->reset();
      next_ = applied_ + 1;
    } else {
      fail(written.error());
    }
    return written.error();
  }
  auto synced = logs().sync(*written);
  if (!synced) fail(synced.error());
  return synced;
}

Status MiniNode::apply(const std::vector<Planned>& group) {
  for (const auto& planned : group) {
    // What a restart would see of it: the payload-free bytes.
    const auto entry = machine::decode_entry(planned.proposal->entry);
    if (!entry) return entry.error();
    const auto done = machine::apply_entry(store(), EntryIndex{planned.index}, 0, *entry);
    if (!done) return done.error();
    checkpointer_->applied(EntryIndex{planned.index}, planned.proposal->touched, planned.proposal->bytes);
    planner_->applied(EntryIndex{planned.index});
    applied_ = planned.index;
  }
  return {};
}

void MiniNode::begin_checkpoint() {
  if (!stopped()) checkpointer_->begin();
}

void MiniNode::run_checkpoint() {
  if (stopped()) return;
  writer_executor_->run_ready();
  apply_executor_->run_ready();
}

void MiniNode::upkeep(std::int64_t us) {
  upkeep_executor_->run_for(us);
}

Status MiniNode::scrub() {
  constexpr std::size_t kRowsPerStep = 7;
  constexpr std::uint64_t kBytesPerStep = 1000;
  store::Scrub rows(store(), *opened_->checkpoint);
  for (bool done = false; !done;) {
    const auto step = rows.step(kRowsPerStep);
    if (!step) return step.error();
    done = step->pass_done;
  }
  const auto files = logs().make_scrub();
  while (!files->step(kBytesPerStep).round_done) {
  }
  const auto damaged = logs().damaged_files();
  return damaged.empty() ? Status{} : Error{Errc::corrupt, damaged[0].path + ": " + damaged[0].what};
}

Status MiniNode::stop() {
  run_checkpoint();
  if (stopped()) return Error{Errc::unavailable, cause_};
  upkeep_.reset();
  if (auto done = checkpointer_->finish(); !done) return done;
  if (auto done = logs().close(); !done) return done;
  kill();
  return {};
}

}  // namespace queen::crash
