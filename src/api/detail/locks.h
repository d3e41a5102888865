// POST /api/v1/locks: locks and semaphores, as leases with a fencing token (api-state.md 2). They are
// key/value rows and nothing else: this node turns each operation into reads and writes of rows in
// `queen-locks`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/detail/context.h"
#include "api/detail/kv.h"
#include "api/json_writer.h"

namespace queen::api {

enum class LockKind : std::uint8_t { acquire, renew, release, get };
struct LockOp {
  LockKind kind = LockKind::get;
  std::string name;
  std::int64_t ttl_seconds = 0;      // acquire, renew
  std::optional<std::string> owner;  // acquire, renew
  std::uint32_t limit = 1;           // acquire: permits in all, 1..1024
  std::uint64_t token = 0;           // renew, release
  std::uint32_t slot = 0;            // renew, release: 0..1023
};
// Errors: what the contract's table names, the first in its order.
tl::expected<std::vector<LockOp>, KvFault> parse_locks(std::string_view body);

// A permit that somebody holds: a live row.
struct LockPermit {
  std::uint32_t slot = 0;
  std::optional<std::string> owner;
  std::uint64_t token = 0;  // 0: not known
  std::int64_t since = 0, renewed_at = 0;
  std::optional<std::int64_t> expires_at;
};

// One operation on its way. Asked what it wants of the store and told what came of it until it wants nothing
// more.
class LockStep {
 public:
  enum class Wants : std::uint8_t { read, write, nothing };

  explicit LockStep(LockOp op);
  Wants wants() const { return wants_; }
  // `random`: picks among the free slots of a semaphore.
  machine::KvOp ask(Random& random);
  void told(const machine::KvOpOutcome& outcome);
  // Whether the store has a row more by it. Once it wants nothing.
  bool added_row() const { return op_.kind == LockKind::acquire && done_ && !already_; }
  // The fields of the result, into an object that is open. Once it wants nothing.
  void write(JsonWriter& out) const;

 private:
  void told_acquire_read(const machine::KvOpOutcome& outcome);
  void told_acquire_write(const machine::KvOpOutcome& outcome);
  void told_renew_read(const machine::KvOpOutcome& outcome);
  void told_page(const machine::KvOpOutcome& outcome);
  void told_write(const machine::KvOpOutcome& outcome);
  void grant(std::uint32_t slot, std::uint64_t token);
  void refuse(std::string_view reason);
  void hold(const std::optional<machine::KvFound>& row);
  bool is_mine(const LockPermit& permit) const;
  std::string key(std::uint32_t slot) const;
  void write_guard(JsonWriter& out) const;
  void write_holders(JsonWriter& out) const;

  LockOp op_;
  Wants wants_ = Wants::nothing;
  std::uint32_t tries_ = 0;               // writes that were lost
  std::vector<std::uint32_t> free_;       // acquire: slots without a live row, as read last
  std::optional<machine::KvFound> read_;  // renew: the row as read last
  std::string after_;                     // get: where the next page begins
  // What came of it.
  bool done_ = false;     // acquired, renewed, released
  bool already_ = false;  // acquired before
  std::uint64_t token_ = 0;
  std::string reason_;
  std::vector<LockPermit> holders_;
};

void handle_locks(const SharedContext& context, Inbound inbound);

}  // namespace queen::api
