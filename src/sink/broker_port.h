// The four calls that a sink makes into the broker, for one tenant (s3-sink.md 3.2). The real port hands each
// call to the broker and answers from there; tests put a log of their own behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/unique_function.h"
#include "lake/record_writer.h"
#include "machine/commands.h"

namespace queen::sink {

// Namespace of every KV document of the sink.
inline constexpr std::string_view kKvNamespace = "queen-s3";
// Error texts of an entry that the engine acts on; any other text is retried.
inline constexpr std::string_view kErrorUnknown = "UNKNOWN_TOPIC_OR_PARTITION";
inline constexpr std::string_view kErrorOutOfRange = "OFFSET_OUT_OF_RANGE";
inline constexpr std::string_view kErrorBadCursor = "BAD_CURSOR";

// What failed (s3-sink.md 3.3).
enum class CallClass : std::uint8_t { transport, status, body, integrity, precondition, config };
std::string_view name_of(CallClass cls);

struct CallError {
  CallClass cls = CallClass::transport;
  int status = 0;                              // of class status; 0 otherwise
  std::string text;                            // one sentence, or the first 2,000 characters of a body
  std::optional<std::int64_t> retry_after_us;  // replaces the wait exactly, without jitter
  bool retriable = true;
};
// Class status: retriable for 408, 429 and 500 up. Transport, body and integrity: always; precondition,
// config: never.
CallError make_call_error(CallClass cls, int status, std::string text,
                          std::optional<std::int64_t> retry_after_us = std::nullopt);

template <class T>
using CallOutcome = tl::expected<T, CallError>;
template <class T>
using CallDone = UniqueFunction<void(CallOutcome<T>)>;

// One record of the log. The views point into memory that `owner` keeps alive: the answer's buffers are
// shared, payload bytes are not copied. `owner` should cover as little as possible: whoever buffers one
// record holds all of it.
struct FetchedRecord {
  std::uint64_t offset = 0;
  std::int64_t ts = 0;  // µs
  std::string_view transaction_id;
  std::string_view payload;  // empty when payload_kind is null
  lake::Payload payload_kind = lake::Payload::json;
  std::shared_ptr<const void> owner;
};

struct FetchRequest {
  std::string partition;
  std::uint64_t offset = 0;
  std::uint64_t bytes_max = 1ULL << 20;  // 1..8 MiB; the first record is delivered whatever its size
};
struct FetchedEntry {
  std::string error;  // empty, or an entry error (kErrorUnknown, kErrorOutOfRange, …)
  std::vector<FetchedRecord> records;
  std::uint64_t high_watermark = 0;  // last offset + 1
  std::uint64_t log_start = 0;
};
struct FetchAnswer {
  std::vector<FetchedEntry> entries;  // one per request, in request order
};

struct ChangedRequest {
  std::optional<std::int64_t> since_us;  // nothing = every partition
  std::string after;                     // cursor of the page before; empty = the first page
  std::uint32_t limit = 1000;            // 1..1000
};
struct ChangedRow {
  std::string name;
  std::optional<Uuid> id;  // of the incarnation; nothing when the other side does not say
  std::int64_t last_offset = -1;
  std::uint64_t log_start = 0;
  std::int64_t last_write_at = 0;  // µs
};
struct ChangedPage {
  std::string error;           // empty, kErrorUnknown or kErrorBadCursor
  std::int64_t safe_time = 0;  // µs; read before the rows, in the same store read
  std::vector<ChangedRow> partitions;
  std::optional<std::string> next;  // nothing on the last page
};

// Thread-safe. Every call returns at once and gives exactly one outcome to `done`, on an unspecified thread.
// After an error nothing is known about a write: it may have been applied.
class BrokerPort {
 public:
  virtual ~BrokerPort() = default;
  // Reads of this node's applied state, without waiting for records. 1..1024 requests.
  virtual void fetch(std::string queue, std::vector<FetchRequest> requests, CallDone<FetchAnswer> done) = 0;
  // One page of the partitions written since, in creation order, of this node's applied state.
  virtual void changed(std::string queue, ChangedRequest request, CallDone<ChangedPage> done) = 0;
  // One atomic batch, linearizable. A lost `required` precondition is a value with failed_index set, not an
  // error. Results are matched to `ops` by position; an answer of another length is class body.
  virtual void kv(std::vector<machine::KvOp> ops, CallDone<machine::KvOutcome> done) = 0;
  // Names of the tenant's queues, without empty ones.
  virtual void list_queues(CallDone<std::vector<std::string>> done) = 0;
};

}  // namespace queen::sink
