// A script of steps over a node, made from a seed: the same seed does the same.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "disk/ram_disk.h"
#include "model.h"

namespace queen::crash {

// One way of laying out logs, all with files of a few hundred bytes.
struct Shape {
  std::string name;
  NodeOptions options;
};
std::vector<Shape> shapes();

// Sums the numbers that log lines carry under these names.
class CountingLog final : public LogSink {
 public:
  explicit CountingLog(std::map<std::string, int>& sums) : sums_(sums) {}
  bool enabled(LogLevel, std::string_view) const override { return true; }
  void write(LogLevel, std::string_view, std::string_view event, std::span<const LogField> fields) override;

 private:
  std::map<std::string, int>& sums_;
};

class Workload {
 public:
  Workload(disk::RamDisk& disk, NodeOptions options, std::uint64_t seed);

  Status start();
  // Steps until `steps` are done or the node has stopped.
  void run(int steps);
  // One step of each kind at least, in this order: so that every kind of file is there.
  void run_every_kind();

  MiniNode& node() { return node_; }
  // The highest entry that was answered; those up to written() may be there as well.
  std::uint64_t answered() const { return answered_; }
  std::uint64_t written() const { return written_; }
  const Model& model_at(std::uint64_t index) const { return *models_.at(index); }
  std::optional<std::uint64_t> digest_at(std::uint64_t index) const;
  std::uint64_t refused() const { return refused_; }
  const std::map<std::string, int>& did() const { return did_; }
  // A step that answered something else than it must.
  const std::string& wrong() const { return wrong_; }
  // Why a restart in between did not come up.
  const std::string& refused_boot() const { return refused_boot_; }

  // Whether a read on the way may meet a failure of the disk.
  Reads reads = Reads::must_succeed;
  // Before each entry that is written goes to the disk.
  std::function<void(const Planned&)> on_planned;
  // After each checkpoint that reached the disk.
  std::function<void()> on_checkpoint;

 private:
  struct Ask {
    machine::Command command;
    std::vector<std::vector<std::uint32_t>> numbers;
  };
  using Asks = std::vector<Ask>;

  void step(int kind);
  // One entry of each list, all in one group. The outcomes of the last one; nothing when refused.
  std::vector<machine::Outcome> submit(std::vector<Asks> entries);
  void answer(const std::vector<Planned>& group);

  Ask push(std::vector<std::pair<std::string, std::string>> places, int items);
  Ask put_kv();
  void push_some();
  void push_group();
  void push_again();
  void pop_and_ack();
  // The ack of all that a pop got; without items when that is nothing.
  machine::AckCommand pop_some();
  // Of workload_transact.cc.
  void transact();
  // Of workload_timers.cc.
  machine::TimerOp timer_op();
  void schedule_timers();
  void fire_timers();
  // Steps of workload_cold.cc: append rows that left RAM, what must then be asked of the log, and scrubs.
  std::vector<machine::Outcome> submit_with_facts(Ask made);
  void judge_claims(const machine::PopCommand& pop, const machine::PopOutcome& popped);
  void judge_ack(machine::AckCommand ack, machine::AckOutcome acked);
  void drop_rows();
  void ack_again();
  void scrub();
  void retain(bool all);
  void configure();
  void delete_queue();
  void restart(bool orderly);
  template <class Body>
  Ask ask(Body body) {
    return {machine::Command{std::string(kDefaultTenant), uuid(), std::move(body)}, {}};
  }
  Uuid uuid();
  std::uint64_t pick(std::uint64_t below) { return random_.next() % below; }
  std::string queue() { return "q" + std::to_string(pick(3)); }
  std::string partition() { return "p" + std::to_string(pick(2)); }

  std::map<std::string, int> did_;
  CountingLog log_{did_};
  ManualClock clock_;
  MiniNode node_;
  SeededRandom random_;
  std::map<std::uint64_t, std::shared_ptr<const Model>> models_;
  std::map<std::uint64_t, std::uint64_t> digests_;
  std::uint64_t answered_ = 0, written_ = 0, refused_ = 0, uuids_ = 0;
  std::uint32_t numbers_ = 0, transactions_ = 0;
  std::string wrong_, refused_boot_;
};

}  // namespace queen::crash
