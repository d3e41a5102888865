// An ack, or a transaction with its acks, from the call to the answer: what it may file is read, it is
// planned, and planned again when the planner had to ask the log.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/pool.h"
#include "broker/core.h"
#include "broker/reads.h"

namespace queen::broker {

// Thread-safe.
class AckFlow {
 public:
  using Done = UniqueFunction<void(Answer<machine::Outcome>)>;
  // `admit` hands a command to the core, through the gates that are for it.
  AckFlow(std::function<void(Pending)> admit, Reads& reads, Pool& readers, std::uint64_t entry_bytes_max)
      : admit_(std::move(admit)), reads_(reads), readers_(readers), entry_bytes_max_(entry_bytes_max) {}

  // An AckCommand or a TransactionCommand.
  void ack(machine::Command command, Done done);

 private:
  struct Call;
  using CallPtr = std::shared_ptr<Call>;  // held by whatever step is next

  void fill_and_submit(const CallPtr& call);
  void submit(const CallPtr& call);
  void on_outcome(const CallPtr& call, Answer<machine::Outcome> outcome);
  void read_asked(const CallPtr& call, const machine::Outcome& outcome);
  void look_back(const CallPtr& call, Answer<machine::Outcome> outcome);

  const std::function<void(Pending)> admit_;
  Reads& reads_;
  Pool& readers_;
  const std::uint64_t entry_bytes_max_;
};

}  // namespace queen::broker
