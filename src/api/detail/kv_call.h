// A KV call on its way to the engine: of the KV routes, and of locks, which are made of such calls.
#pragma once

#include <cstdint>
#include <string>

#include "api/detail/context.h"
#include "api/detail/kv.h"
#include "base/unique_function.h"

namespace queen::api {

struct KvCaller {
  std::string tenant;
  std::int64_t deadline_mono_us = 0;  // nothing is planned after it
  // Given back when the call wrote nothing; null: the caller settles it.
  std::shared_ptr<Ladder::Charge> charge = nullptr;
};

// What a passed deadline is refused with.
broker::Refusal kv_too_late();

// Submits the call; `done` runs once, on an engine thread, with one outcome per operation or a lost
// precondition, or with the refusal to answer.
void run_kv(const SharedContext& context, const KvCaller& caller, machine::KvCommand command,
            UniqueFunction<void(tl::expected<machine::KvOutcome, http::Response>)> done);

}  // namespace queen::api
