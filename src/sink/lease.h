// Who runs a queue: one KV row per queue, and the fence that makes two owners impossible
// (s3-sink.md 6.1, 6.2).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/log.h"
#include "sink/async.h"
#include "sink/calls.h"
#include "sink/documents.h"

namespace queen::sink {

// The KV TTL of lease and presence rows, in seconds, and how often both are written, in µs.
std::int64_t ttl_seconds_of(std::int64_t lease_ttl_us);
std::int64_t refresh_interval_us(std::int64_t lease_ttl_us);
// 16 lower-case hex digits.
std::string make_incarnation(Random& random);
// Deletes the row at `key` while it names `incarnation`, through ten seconds of retriable failures; then one
// warning and the row is left to its TTL. Never fails.
Task<void> delete_own_row(BrokerCalls& calls, std::string key, std::string incarnation, Logger log);

struct LookResult {
  enum class Row : std::uint8_t { free, mine, other };
  Row row = Row::free;
  std::string holder;  // of other; "unknown" when the row does not parse
};
struct ClaimResult {
  bool taken = false;
  std::string holder;  // when not taken
};

// One claim of one queue by one node. Used on one executor. Claim, refresh, fenced and release are
// serialised: each holds the handle from reading the version it expects until its answer is absorbed, so a
// node never fences itself.
class Lease {
 public:
  struct Names {
    std::string key;
    std::string instance;
    std::string incarnation;
  };
  Lease(BrokerCalls& calls, Names names, std::int64_t lease_ttl_us, Logger log);

  // Reads the row, writes nothing.
  Task<CallOutcome<LookResult>> look();
  // Takes a free row, or one of an earlier life of this instance.
  Task<CallOutcome<ClaimResult>> claim();
  // Error of class precondition, or any that is not retriable: the handle is lost.
  Task<CallOutcome<machine::Nothing>> refresh();
  // The lease row at the version last written, then `ops`, as one batch. Gives the results of `ops`. A lost
  // precondition is an error of class precondition whose text says which; the handle is lost when it was the
  // lease's.
  Task<CallOutcome<std::vector<machine::KvOpOutcome>>> fenced(std::vector<machine::KvOp> ops);
  // Nothing when this handle never held the row.
  Task<void> release();

  bool held() const { return version_ != 0 && !lost_; }
  // Sticky.
  bool lost() const { return lost_; }
  void mark_lost();
  // Batches that lost a precondition and were rolled back, refreshes not counted.
  std::uint64_t batches_rolled_back() const { return batches_rolled_back_; }
  // Called once, when the handle gets lost.
  void on_lost(std::function<void()> hook) { on_lost_ = std::move(hook); }
  std::int64_t refresh_every_us() const { return refresh_interval_us(lease_ttl_us_); }

 private:
  std::string row() const;
  machine::KvOp refresh_op() const;
  Task<CallOutcome<ClaimResult>> take_over(std::uint64_t version);
  bool absorb(const machine::KvOpOutcome& written);

  BrokerCalls& calls_;
  Names names_;
  std::int64_t lease_ttl_us_;
  Logger log_;
  AsyncPermits writer_;
  std::int64_t since_ms_ = 0;
  std::uint64_t version_ = 0;  // last written; 0 = never held
  bool lost_ = false;
  std::uint64_t batches_rolled_back_ = 0;
  std::function<void()> on_lost_;
};

}  // namespace queen::sink
