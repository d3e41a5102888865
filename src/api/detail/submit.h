// Commands whose answer is one outcome: parked under a deadline, rendered when the broker has decided.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "api/detail/context.h"

namespace queen::api {

// What the planner refused, or nothing.
inline std::optional<broker::Refusal> refusal_of(const broker::Answer<machine::Outcome>& answer) {
  if (!answer) return answer.error();
  if (!answer->code.empty()) return broker::Refusal{answer->code, answer->error};
  return std::nullopt;
}

// Hands `command` to the broker through `call(command, done)`. The answer is `render(outcome body of type
// T)`, or `refuse(refusal)`; a passed deadline is a refusal with code `timeout`.
template <class T, class Call, class Render, class Refuse>
void submit_command(const SharedContext& context, std::unique_ptr<Reply> reply, std::int64_t timeout_ms,
                    machine::Command command, Call call, Render render, Refuse refuse) {
  auto pending = std::make_shared<Pending>(context->deadlines, std::move(reply));
  command.deadline_mono_us = context->deadline_us(timeout_ms);
  pending->set_deadline(command.deadline_mono_us, [pending, refuse] {
    pending->answer(
        refuse(broker::Refusal{"timeout", "the deadline passed; the call may still take effect"}));
  });
  call(std::move(command), [context, pending, render = std::move(render),
                            refuse](broker::Answer<machine::Outcome> answer) mutable {
    if (!pending->claim()) return;
    if (const auto refusal = refusal_of(answer)) return pending->send(refuse(*refusal));
    if (const T* body = std::get_if<T>(&answer->body)) return pending->send(render(*body));
    pending->send(refuse(broker::Refusal{"internal", "the engine gave an answer of another kind"}));
  });
}

}  // namespace queen::api
