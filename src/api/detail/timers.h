// /api/v1/timers: scheduling messages, taking them back, and looking at those that are pending.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/detail/context.h"
#include "api/detail/json_check.h"
#include "api/detail/ladder.h"
#include "api/detail/seal.h"
#include "api/json_writer.h"
#include "broker/timer_reads.h"

namespace queen::api {

// `{"error":error,"reason":reason,"detail":detail}`: the envelope of the state plane.
struct TimerFault {
  // What is wrong: the shape of the call, or a value that the shape allows (a transaction rolls back on it).
  enum class Kind : std::uint8_t { shape, value, name } kind = Kind::shape;
  int status = 400;
  std::string error = "timers_bad_request";
  std::string reason, detail;
};
http::Response timer_fault_response(const TimerFault& fault);
// A refusal of the engine underneath, in the envelope that the code calls for.
http::Response timer_refusal_response(const broker::Refusal& refusal);

struct TimerLimits {
  std::size_t ops_max = SIZE_MAX;
  std::int64_t horizon_s = 0, payload_bytes_max = 0;
  std::uint64_t raw_bytes_max = 0;  // of all payloads together, decompressed
  // Whether payloads of that queue are stored sealed; null = of none.
  std::function<bool(std::string_view queue)> encrypts;
};
// What one call of that tenant may hold; asks this node's queues.
TimerLimits timer_limits(const SharedContext& context, const std::string& tenant);
// Errors: what api-state.md 3.2 and 3.5 name, of the first operation that is wrong. Message ids are not
// minted.
tl::expected<machine::TimersCommand, TimerFault> parse_timer_ops(const std::vector<JsonValue>& elements,
                                                                 std::string_view tenant,
                                                                 const TimerLimits& limits);
tl::expected<machine::TimersCommand, TimerFault> parse_timers(std::string_view body, std::string_view tenant,
                                                              const TimerLimits& limits);
// Why no timer can have that name, or nothing; the second for names that came in a path.
std::optional<TimerFault> check_timer_name(std::string_view tenant, std::string_view queue,
                                           std::string_view key, std::string_view partition = {});
std::optional<TimerFault> check_timer_path(std::string_view tenant, std::string_view queue,
                                           std::string_view key);
// Gives every schedule its message id, and its payload the form that its queue wants stored.
void prepare_timers(machine::TimersCommand& command, std::int64_t wall_us, Random& random,
                    const Sealer& sealer);
// What the ladder takes of the tenant for the schedules; null when there are none: nothing holds back
// cancels.
using TimerCharge = std::shared_ptr<Ladder::Charge>;
enum class Within : std::uint8_t { call, transaction };
tl::expected<TimerCharge, Denied> charge_timers(Ladder& ladder, const std::string& tenant,
                                                const machine::TimersCommand& command, Within within);

// What the answer tells of the operations themselves.
struct TimerEcho {
  bool schedules = false;
  std::string queue, key;
};
std::vector<TimerEcho> echo_of(const machine::TimersCommand& command);
// `"ok":…` and what belongs to it; into an object that is open.
void write_timer_result(JsonWriter& out, const TimerEcho& echo, const machine::TimerOpOutcome& outcome);
std::string render_timers(const std::vector<TimerEcho>& echo, const machine::TimersOutcome& outcome);

std::string render_peek(std::string_view queue, std::string_view key,
                        const std::optional<broker::TimerView>& timer);
std::string render_timer_page(std::string_view queue, const broker::TimerPage& page);

void handle_timers(const SharedContext& context, Inbound inbound);
void handle_timer_cancel(const SharedContext& context, Inbound inbound);
void handle_timer_peek(const SharedContext& context, Inbound inbound);
void handle_timer_list(const SharedContext& context, Inbound inbound);

}  // namespace queen::api
