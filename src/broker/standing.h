// How the queues of a tenant stand, for the operator's status (operations.md 6.4).
#pragma once

#include <string>

#include "broker/partition_figures.h"
#include "broker/resources.h"
#include "store/store.h"

namespace queen::broker {

// The part of Resources that sums up queues, with its contract.
class StandingReads {
 public:
  StandingReads(const store::Store& store, Clock& clock) : store_(store), clock_(clock) {}
  StandingView standing(const std::string& tenant, const QueueFilter& filter);

 private:
  void add_partitions(const std::string& tenant, QueueStanding& queue);
  void add_dead_letters(const std::string& tenant, const std::string& queue, StandingView& out);

  const store::Store& store_;
  Clock& clock_;
};

}  // namespace queen::broker
