// What a node must hold, by the answers it gave: kept per entry, because a crash may leave some entries that
// nobody was told of.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mini_node.h"

namespace queen::crash {

// The message with a number: the same text wherever it is asked for. Some are long enough to be compressed.
std::string message_text(std::uint32_t number);
std::string transaction_id(std::uint32_t number);

machine::PushBatch message_batch(const std::string& queue, const std::string& partition,
                                 const std::vector<std::uint32_t>& numbers);

struct AppendFact {
  std::int64_t base = 0, end = 0;  // end exclusive
  std::int64_t created_at = 0;
  std::uint64_t raw_bytes = 0;
};

struct ModelPartition {
  std::string queue, partition;
  std::vector<std::uint32_t> numbers;  // by offset
  std::vector<AppendFact> appends;
  std::int64_t log_start = 0;
  std::int64_t rows_start = 0;  // rows are there for the appends that end at or above it
};

struct ModelTimer {
  std::uint32_t number = 0;
  std::int64_t deliver_at = 0;
};

struct Model {
  std::map<std::uint64_t, ModelPartition> partitions;                       // by pid
  std::map<std::pair<std::uint64_t, std::string>, std::int64_t> committed;  // by pid and group
  std::map<std::string, std::string> kv;
  std::map<std::string, std::int32_t> retention_seconds;             // configured, by queue
  std::map<std::pair<std::string, std::string>, ModelTimer> timers;  // pending, by queue and key

  // What `outcome` and the effects of the entry say. `numbers` are those of a push, by batch.
  void planned(const machine::Command& command, const machine::Outcome& outcome,
               const std::vector<std::vector<std::uint32_t>>& numbers);
  void entry(const machine::Entry& entry);

 private:
  void appended(const machine::Append& append);
  void transaction(const machine::Command& command, const machine::TransactionOutcome& outcome,
                   const std::vector<std::vector<std::uint32_t>>& numbers);
};

// What a pop must claim from each partition of its queue, by the answers so far: the offset that comes first,
// and nothing (no entry) where all was taken.
std::map<std::uint64_t, std::uint64_t> unfinished(const Model& model, const std::string& queue,
                                                  const std::string& group);

// Whether a read may say that what it wants is damaged.
enum class Reads : bool { must_succeed, may_fail };

// The first thing in which the node differs from the model; empty when it holds everything, readable.
std::string difference(const Model& model, MiniNode& node, Reads reads = Reads::must_succeed);

// The first queue in which a group that only comes now would not be given every message that is left, from
// the first on, whether its append has a row or only the log knows it (RT-10). Only plans: nothing is
// written.
std::string late_group_differs(const Model& model, MiniNode& node);

}  // namespace queen::crash
