// What the planner asks of the log: appends whose rows left RAM (machine/cold.h), looked up by the logs'
// index.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "machine/cold.h"
#include "machine/commands.h"
#include "qlog/queue_logs.h"

namespace queen::broker {

// Thread-safe. Calls block on the disk: not from engine threads, and with no read gate held.
class ColdLog {
 public:
  explicit ColdLog(qlog::QueueLogs& logs) : logs_(logs) {}

  // Adds to `facts` what `asks` want to know. A damaged append counts without its hashes: a read of its
  // messages says so. Errors: full (more than kMessagesMax messages), corrupt (an index), unavailable.
  Status read(std::span<const machine::ColdAsk> asks, machine::ColdFacts& facts) const;

  // Answers the items of `outcome` that no row knew and the log does: repeats of what the group finished
  // (A-11, DD-9). Errors: as read().
  Status look_back(const machine::AckCommand& ack, machine::AckOutcome& outcome) const;

  static constexpr std::int64_t kMessagesMax = 1 << 20;  // of one command

 private:
  Status read_start(const machine::ColdAsk& ask, machine::ColdFacts& facts) const;
  Status read_appends(const machine::ColdAsk& ask, std::int64_t& messages_left,
                      machine::ColdFacts& facts) const;

  qlog::QueueLogs& logs_;
};

}  // namespace queen::broker
