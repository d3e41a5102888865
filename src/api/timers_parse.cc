// Timers: the body to a command. Order of refusals: the body's shape, the number of operations, then
// operation by operation the rules of api-state.md 3.2.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "api/detail/names.h"
#include "api/detail/timers.h"
#include "base/text.h"
#include "broker/timer_due.h"
#include "qlog/record.h"
#include "store/keys.h"

namespace queen::api {
namespace {

using machine::TimerOp;
using Fault = std::optional<TimerFault>;
using Kind = TimerFault::Kind;

constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::array<std::string_view, 14> kServerOwned = {
    "producerSub", "producer_sub", "messageId", "message_id", "tenant",      "tenantId",     "tenant_id",
    "deliverAt",   "deliver_at",   "attempts",  "claimToken", "claim_token", "claimedUntil", "delaySeconds"};

TimerFault bad(std::string reason, std::string detail) {
  return {Kind::shape, 400, "timers_bad_request", std::move(reason), std::move(detail)};
}
// A shape that the contract has no reason of its own for.
TimerFault bad(std::string reason) {
  return bad(std::move(reason), {});
}

bool is_server_owned(std::string_view name) {
  return name.starts_with('_') || name == "delay_seconds" ||
         std::find(kServerOwned.begin(), kServerOwned.end(), name) != kServerOwned.end();
}

// µs from a number of milliseconds, as near as 64 bits allow.
std::int64_t micros_of(const JsonValue& number) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 4;
  constexpr std::int64_t kMicrosPerMilli = 1000;
  if (const auto whole = integral_of(number); whole && std::abs(*whole) <= kMost / kMicrosPerMilli)
    return *whole * kMicrosPerMilli;
  const double us = std::strtod(std::string(number.text).c_str(), nullptr) * kMicrosPerMilli;
  return static_cast<std::int64_t>(
      std::llround(std::clamp(us, -static_cast<double>(kMost), static_cast<double>(kMost))));
}

class OpReader {
 public:
  OpReader(const JsonFields& fields, std::string_view tenant, const TimerLimits& limits,
           std::uint64_t& raw_bytes)
      : fields_(fields), tenant_(tenant), limits_(limits), raw_bytes_(raw_bytes) {}

  tl::expected<TimerOp, TimerFault> run() {
    using Step = Fault (OpReader::*)();
    for (const Step step : {&OpReader::check_owned, &OpReader::read_kind, &OpReader::read_name,
                            &OpReader::read_delay, &OpReader::read_transaction_id, &OpReader::read_partition,
                            &OpReader::read_encrypted, &OpReader::read_payload, &OpReader::check_name})
      if (auto fault = (this->*step)()) return tl::unexpected(*std::move(fault));
    return std::move(op_);
  }

 private:
  Fault check_owned() {
    for (const std::string_view name : fields_.names())
      if (is_server_owned(name))
        return bad("timers_server_owned_field", fmt::format("{} is set by the broker", json_string(name)));
    return std::nullopt;
  }

  Fault read_kind() {
    const JsonValue* value = fields_.find("op");
    const auto name = value != nullptr ? string_of(*value) : std::nullopt;
    if (name == "cancel")
      op_.kind = TimerOp::Kind::cancel;
    else if (name != "schedule" && name != "reschedule")
      return bad("timers_bad_op", "op must be schedule, reschedule or cancel");
    return std::nullopt;
  }

  // Fills `out`; false when the field is absent, null, no string or empty.
  bool text(std::string_view name, std::string& out) {
    const JsonValue* value = fields_.find_set(name);
    auto given = value != nullptr ? string_of(*value) : std::nullopt;
    if (given) out = *std::move(given);
    return !out.empty();
  }

  Fault read_name() {
    if (!text("queue", op_.queue)) return bad("timers_queue_required", "queue must be a string, not empty");
    if (!text("timerKey", op_.key)) return bad("timerKey must be a string, not empty");
    return std::nullopt;
  }

  bool schedules() const { return op_.kind == TimerOp::Kind::schedule; }

  Fault read_delay() {
    if (!schedules()) return std::nullopt;
    const JsonValue* value = fields_.find_set("delayMs");
    if (value == nullptr) return bad("timers_delay_required", "delayMs is missing");
    if (value->kind != JsonKind::number) return bad("delayMs must be a number of milliseconds");
    op_.delay_us = micros_of(*value);
    if (op_.delay_us > limits_.horizon_s * kSecondUs)
      return TimerFault{Kind::value, 400, "timer_horizon_exceeded", "timers_horizon",
                        fmt::format("a timer may be {} seconds ahead", limits_.horizon_s)};
    return std::nullopt;
  }

  Fault read_transaction_id() {
    const bool given = fields_.find_set("txn") != nullptr;
    if (!schedules() && !given) return std::nullopt;
    if (!text("txn", op_.transaction_id)) return bad("txn must be a string, not empty");
    if (op_.transaction_id.size() > kTransactionIdBytesMax) return bad("txn is longer than 65535 bytes");
    return std::nullopt;
  }

  Fault read_partition() {
    if (!schedules()) return std::nullopt;
    op_.partition = kDefaultPartition;
    if (fields_.find_set("partition") == nullptr) return std::nullopt;
    op_.partition.clear();
    if (!text("partition", op_.partition)) return bad("partition must be a string, not empty");
    return std::nullopt;
  }

  Fault flag(std::string_view name, bool& out) {
    const JsonValue* value = fields_.find_set(name);
    if (value == nullptr) return std::nullopt;
    if (value->kind != JsonKind::boolean) return bad(std::string(name) + " must be true or false");
    out = value->is_true();
    return std::nullopt;
  }

  Fault read_encrypted() {
    if (!schedules()) return std::nullopt;
    if (auto fault = flag("encrypted", op_.encrypted)) return fault;
    if (fields_.find_set("encrypted") != nullptr && limits_.encrypts && limits_.encrypts(op_.queue)) {
      TimerFault fault = bad("timers_encrypted_conflict", "the broker encrypts what is sent to that queue");
      fault.kind = Kind::value;
      return fault;
    }
    return std::nullopt;
  }

  Fault read_payload() {
    if (!schedules()) return std::nullopt;
    bool zstd = false;
    if (auto fault = flag("payloadZstd", zstd)) return fault;
    const JsonValue* value = fields_.find_set("payload");
    if (value == nullptr) return bad("timers_payload_required", "payload is missing");
    const auto text = string_of(*value);
    auto bytes = text ? base64_decode(*text) : std::nullopt;
    if (!bytes) return bad("timers_payload_not_base64", "payload must be base64, padded");
    if (bytes->size() > static_cast<std::uint64_t>(limits_.payload_bytes_max)) return too_large();
    op_.payload = *std::move(bytes);
    if (zstd) {
      if (auto fault = decompress()) return fault;
    }
    op_.raw = !is_utf8_fast(op_.payload) || !is_json(op_.payload);
    return std::nullopt;
  }

  // What comes out may be many times what came in: all of a call together are bounded as an entry is.
  Fault decompress() {
    auto plain = qlog::decompress_foreign(op_.payload, limits_.raw_bytes_max - raw_bytes_);
    if (!plain && plain.error().code == Errc::full) return too_large();
    if (!plain) return bad("payload is not zstd");
    raw_bytes_ += plain->size();
    op_.payload = *std::move(plain);
    return std::nullopt;
  }

  TimerFault too_large() const {
    return {Kind::value, 413, "payload_too_large", "timers_payload_too_large",
            fmt::format("a payload may have {} bytes", limits_.payload_bytes_max)};
  }

  Fault check_name() { return check_timer_name(tenant_, op_.queue, op_.key, op_.partition); }

  const JsonFields& fields_;
  const std::string_view tenant_;
  const TimerLimits& limits_;
  std::uint64_t& raw_bytes_;
  TimerOp op_;
};

}  // namespace

Fault check_timer_name(std::string_view tenant, std::string_view queue, std::string_view key,
                       std::string_view partition) {
  if (names_fit(tenant, queue, partition) &&
      store::timer_due_key(0, tenant, queue, key).size() <= store::kKeyBytesMax)
    return std::nullopt;
  return TimerFault{Kind::name, 413, "name_too_long", {}, "queue, partition or timerKey is too long"};
}

tl::expected<machine::TimersCommand, TimerFault> parse_timer_ops(const std::vector<JsonValue>& elements,
                                                                 std::string_view tenant,
                                                                 const TimerLimits& limits) {
  if (elements.size() > limits.ops_max)
    return tl::unexpected(
        bad("timers_too_many_ops", fmt::format("at most {} operations per call", limits.ops_max)));
  machine::TimersCommand out;
  std::uint64_t raw_bytes = 0;
  std::set<std::pair<std::string, std::string>> named;
  for (const JsonValue& element : elements) {
    const auto fields = JsonFields::of(element);
    if (!fields) return tl::unexpected(bad("timers_bad_op", "an operation must be an object"));
    auto op = OpReader(*fields, tenant, limits, raw_bytes).run();
    if (!op) return tl::unexpected(std::move(op).error());
    if (!named.emplace(op->queue, op->key).second)
      return tl::unexpected(bad("a timer may be named once per call"));
    out.ops.push_back(*std::move(op));
  }
  return out;
}

// The operations: the body itself when it is an array, else its `operations`.
tl::expected<machine::TimersCommand, TimerFault> parse_timers(std::string_view body, std::string_view tenant,
                                                              const TimerLimits& limits) {
  const auto value = body_value(body);
  std::optional<std::vector<JsonValue>> elements;
  if (value && value->kind == JsonKind::array) elements = elements_of(*value);
  const auto top = value ? JsonFields::of(*value) : std::nullopt;
  if (top) {
    const JsonValue* list = top->find("operations");
    if (list != nullptr) elements = elements_of(*list);
  }
  if (!elements)
    return tl::unexpected(bad("timers_bad_body", R"(the body must be an array, or {"operations":[...]})"));
  return parse_timer_ops(*elements, tenant, limits);
}

void prepare_timers(machine::TimersCommand& command, std::int64_t wall_us, Random& random,
                    const Sealer& sealer) {
  for (TimerOp& op : command.ops) {
    if (op.kind != TimerOp::Kind::schedule) continue;
    op.message_id = make_uuid_v7(wall_us, random);
    if (op.encrypted || !sealer.wants(op.queue)) continue;
    // An envelope holds the text that consumers get.
    auto sealed = sealer.seal(op.raw ? broker::raw_message(op.payload) : std::string(op.payload));
    if (!sealed) continue;
    op.payload = *std::move(sealed);
    op.raw = false;
    op.encrypted = true;
  }
}

}  // namespace queen::api
