// Commands of the state plane: KV, timers, streams, switches, quotas, declarations of in-memory queues
// (api-state.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "machine/push_command.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::machine {

enum class KvKind : std::uint8_t { get, get_many, get_prefix, put, put_if_absent, del, incr, check };
struct KvOp {
  KvKind kind = KvKind::get;
  std::string ns, key;
  std::vector<std::string> keys;  // get_many
  std::string prefix, after;      // get_prefix; `after` exclusive
  std::uint32_t limit = 100;      // 1..1000
  bool keys_only = false;
  std::string value;                        // JSON text as sent (D6)
  std::optional<std::int64_t> ttl_seconds;  // none = forever
  std::optional<std::uint64_t> expect;
  bool required = false;
  // incr: JSON number texts; empty = no bound.
  std::string delta, min, max;
};
struct KvCommand {
  std::vector<KvOp> ops;
};
struct KvFound {
  std::string key, value;
  std::uint64_t version = 0;
  std::optional<std::int64_t> expires_at;
  std::int64_t updated_at = 0;
};
struct KvOpOutcome {
  bool applied = false;  // writes
  std::string reason;    // "exists", "absent", "version", "limit", "type" when not applied
  std::optional<KvFound>
      row;  // get: the row; put: what is stored; delete: what was removed; not applied: the live row
  std::vector<KvFound> rows;         // get_many, get_prefix
  std::vector<std::string> missing;  // get_many
  bool truncated = false;
  std::optional<std::string> next_after;
};
struct KvOutcome {
  std::vector<KvOpOutcome> ops;               // input order; empty when a precondition was lost
  std::optional<std::uint32_t> failed_index;  // a `required` op lost: nothing was written
  std::string failed_reason;
  std::optional<KvFound> failed_row;
};
// Removes expired rows, oldest expiry first.
struct KvSweepCommand {
  std::uint32_t limit = 512;
};

// Schedules a message for a later time, or takes it back (api-state.md 3).
struct TimerOp {
  enum class Kind : std::uint8_t { schedule, cancel } kind = Kind::schedule;
  std::string queue, key;
  std::string
      transaction_id;  // schedule: of the message, never empty; cancel: echoed when nothing is pending
  // schedule
  std::int64_t delay_us = 0;  // from the planner's stamp; at or below 0: due at once
  std::string partition;
  Bytes payload;           // as it was sent, or its sealed form
  bool raw = false;        // `payload` is no JSON text
  bool encrypted = false;  // `payload` is sealed
  Uuid message_id;         // minted
  std::optional<std::string> producer_sub;
};
struct TimersCommand {
  std::vector<TimerOp> ops;  // distinct (queue, key)
};
struct TimerOpOutcome {
  enum class Status : std::uint8_t { scheduled, rescheduled, cancelled, absent };
  Status status = Status::scheduled;
  std::string transaction_id;   // of the timer; as sent when absent
  Uuid message_id;              // of a schedule
  std::int64_t deliver_at = 0;  // of a schedule
};
struct TimersOutcome {
  std::vector<TimerOpOutcome> ops;  // aligned with the command's
};
// Fires timers of one tenant that are due: each becomes a message, or is left in the way that its refusal
// calls for (TM-9). The broker read them and prepared their messages; what is not pending any more, or was
// scheduled anew since, is passed over.
struct TimerFireCommand {
  struct One {
    std::string queue, key;
    Uuid message_id;        // of the timer as it was read
    std::size_t batch = 0;  // of `push`
    std::uint32_t item = 0;
    std::optional<Bytes>
        letter;  // what a dead letter of it would hold; needed when one more refusal files it
  };
  std::vector<One> timers;  // earliest due first
  PushCommand push;         // a batch per (queue, partition); the items of each in due order
  std::int64_t backoff_min_us = 1'000'000, backoff_max_us = 60'000'000;
  std::uint32_t attempts_max = 5;
};
struct TimerFireOutcome {
  std::uint32_t fired = 0;       // became messages
  std::uint32_t duplicates = 0;  // gone, their ids were in the window (TM-7)
  std::uint32_t passed = 0;      // not pending as they were read, or left to the next step
  std::uint32_t refused = 0;     // backed off
  std::uint32_t filed = 0;       // became dead letters
};

// Makes a query, or finds it by its name (api-state.md 5.1).
struct StreamsRegisterCommand {
  std::string name, source;
  std::optional<std::string> sink;
  std::string config_hash;
  bool reset = false;
  Uuid query_id;                             // minted, used when the query is new
  std::optional<std::uint64_t> queries_max;  // of the tenant; nothing: no limit
};
struct StreamsRegisterOutcome {
  Uuid query_id;
  bool fresh = false, reset = false;
  bool mismatch = false;  // another hash and no reset: nothing changed
  bool denied = false;    // the tenant has as many queries as it may
};
struct StreamsStateOp {
  std::string key;
  std::optional<std::string> value;  // JSON text; nothing: delete
};
// State, sink pushes and the ack of the source, all or nothing (api-state.md 5.3).
struct StreamsCycleCommand {
  Uuid query_id;
  Pid pid;  // of the source
  std::string group{kQueueMode};
  std::vector<StreamsStateOp> state;  // in order
  PushCommand push;
  struct Ack {
    std::string lease_id;    // empty: no lease is checked
    bool completed = true;   // false: the lease ends and the cursor stays
    std::int64_t count = 0;  // messages from the head of the batch, when the lease is kept
  };
  std::optional<Ack> ack;
  bool release_lease = true;
};
struct StreamsCycleOutcome {
  bool found = false;         // the query and the partition are the tenant's
  std::string reason, error;  // why nothing took place; empty: all did
  std::string queue;          // of the source
  std::uint32_t state_ops = 0;
  PushOutcome push;
  struct Acked {
    std::int64_t count = 0;  // messages the cursor moved over
    bool lease_released = false;
  };
  std::optional<Acked> ack;  // nothing: no ack, or a group without a cursor there
};

// Operator's switches and a tenant's grants and limits (operations.md 8).
struct FlagCommand {
  std::string name;
  std::optional<Bytes> value;  // nothing: unset
};
struct QuotaCommand {
  store::QuotaKind kind = store::QuotaKind::kv;
  std::string tenant;
  std::optional<store::QuotaRow> row;  // nothing: none
};
// Declarations of in-memory queues (api-state.md EP-12).
struct EphemeralConfigureCommand {
  std::string queue;
  store::EphemeralRow row;
};
struct EphemeralConfigureOutcome {
  store::EphemeralRow row;  // as stored
};
struct EphemeralDeleteCommand {
  std::string queue;
};
struct EphemeralDeleteOutcome {
  bool declared = false;  // it was
};

}  // namespace queen::machine
