// An ack from the call to the answer: what it may file is read, it is planned, and planned again when the
// planner had to ask the log.
#pragma once

#include <cstdint>
#include <memory>

#include "broker/core.h"
#include "broker/reads.h"
#include "broker/thread_runner.h"

namespace queen::broker {

// Thread-safe.
class AckFlow {
 public:
  using Done = UniqueFunction<void(Answer<machine::Outcome>)>;
  AckFlow(Core& core, Reads& reads, ThreadPool& readers, std::uint64_t entry_bytes_max)
      : core_(core), reads_(reads), readers_(readers), entry_bytes_max_(entry_bytes_max) {}

  void ack(machine::Command command, Done done);

 private:
  struct Call;
  using CallPtr = std::shared_ptr<Call>;  // held by whatever step is next

  void fill_and_submit(const CallPtr& call);
  void submit(const CallPtr& call);
  void on_outcome(const CallPtr& call, Answer<machine::Outcome> outcome);

  Core& core_;
  Reads& reads_;
  ThreadPool& readers_;
  const std::uint64_t entry_bytes_max_;
};

}  // namespace queen::broker
