#include "sink/sink_world.h"

#include "base/text.h"

namespace queen::sink {

std::string QueueContext::percent_name(std::string_view name) {
  return percent_encode_name(name);
}

void QueueContext::note_error(const char* event, const std::string& message) {
  row.last_error = LastError{.at_us = world.executor.clock().wall_us(), .message = message};
  publish();
  if (const auto suppressed = world.limit.pass(event, now_us(), kRepeatLogUs))
    log.warn(event, {{"error", message}, {"suppressed", *suppressed}});
}

void QueueContext::report_memory(std::uint64_t bytes) {
  world.shared.memory.report(memory_key, bytes);
}

}  // namespace queen::sink
