// KV: the one way of a call to the engine.
#include "api/detail/kv_call.h"

#include <algorithm>

#include "api/detail/submit.h"
#include "machine/commands.h"

namespace queen::api {
namespace {

using Answer = tl::expected<machine::KvOutcome, http::Response>;

http::Response engine_fault(std::string_view reason, std::string detail) {
  return kv_fault_response({500, "kv_error", std::string(reason), std::move(detail)});
}

bool wrote_nothing(const Answer& outcome) {
  const auto applied = [](const machine::KvOpOutcome& op) { return op.applied; };
  return outcome &&
         (outcome->failed_index || std::none_of(outcome->ops.begin(), outcome->ops.end(), applied));
}

Answer answer_of(broker::Answer<machine::Outcome> answer, std::size_t operations) {
  if (const auto refusal = refusal_of(answer)) return tl::unexpected(kv_refusal_response(*refusal));
  auto* outcome = std::get_if<machine::KvOutcome>(&answer->body);
  if (outcome == nullptr)
    return tl::unexpected(engine_fault("kv_result_missing", "the engine gave an answer of another kind"));
  if (outcome->failed_index) return std::move(*outcome);
  if (outcome->ops.size() < operations)
    return tl::unexpected(engine_fault("kv_result_missing", "the engine gave fewer results than operations"));
  if (outcome->ops.size() > operations)
    return tl::unexpected(
        engine_fault("kv_result_misaligned", "the engine gave more results than operations"));
  return std::move(*outcome);
}

}  // namespace

broker::Refusal kv_too_late() {
  return {"timeout", "the deadline passed; the call may still take effect"};
}

void run_kv(const SharedContext& context, const KvCaller& caller, machine::KvCommand body,
            UniqueFunction<void(Answer)> done) {
  const std::size_t operations = body.ops.size();
  machine::Command command{caller.tenant, make_uuid_v7(context->clock.wall_us(), context->random),
                           std::move(body)};
  command.deadline_mono_us = caller.deadline_mono_us;
  if (machine::estimated_bytes(command) > context->broker.entry_bytes_max()) {
    if (caller.charge) caller.charge->give_back();
    return done(tl::unexpected(
        kv_refusal_response({"too_large", "the call is larger than an entry of the log may be"})));
  }
  context->broker.submit(std::move(command), [operations, charge = caller.charge, done = std::move(done)](
                                                 broker::Answer<machine::Outcome> answer) mutable {
    const auto refusal = refusal_of(answer);
    Answer outcome = answer_of(std::move(answer), operations);
    if (charge && (refusal ? is_certain(*refusal) : wrote_nothing(outcome))) charge->give_back();
    done(std::move(outcome));
  });
}

}  // namespace queen::api
