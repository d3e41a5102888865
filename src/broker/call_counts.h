// Counts pushes, pops, acks and transactions as they are answered (operations.md 6.1): wraps their callbacks.
#pragma once

#include "broker/broker.h"
#include "broker/node_meter.h"
#include "store/store.h"

namespace queen::broker {

// Thread-safe. Each call looks at the command before it is handed on.
class CallCounts {
 public:
  using OutcomeDone = UniqueFunction<void(Answer<machine::Outcome>)>;
  CallCounts(NodeMeter& meter, const store::Store& store, Clock& clock)
      : meter_(meter), store_(store), clock_(clock) {}

  UniqueFunction<void(Answer<PushAnswer>)> push(const machine::Command& command,
                                                UniqueFunction<void(Answer<PushAnswer>)> done);
  UniqueFunction<void(Answer<PopAnswer>)> pop(const machine::Command& command,
                                              UniqueFunction<void(Answer<PopAnswer>)> done);
  // Of an AckCommand or a TransactionCommand.
  OutcomeDone ack(const machine::Command& command, OutcomeDone done);
  // Partitions that an entry makes and removes, before it is applied.
  void entry(const machine::Entry& entry);

 private:
  void count_pop(const std::string& tenant, const Tally& queue, const Answer<PopAnswer>& answer);

  NodeMeter& meter_;
  const store::Store& store_;
  Clock& clock_;
};

}  // namespace queen::broker
