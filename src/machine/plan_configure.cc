// Creating and changing queues (api-messaging.md 10.1, 10.2).
#include <algorithm>
#include <array>
#include <limits>

#include "machine/detail/cycle.h"

namespace queen::machine::detail {
namespace {

constexpr std::int64_t kHoldSecondsMin = 60;
constexpr std::int64_t kHoldSecondsMax = 31'536'000;
constexpr std::int32_t kPopWaitMsMax = 60'000;
constexpr std::size_t kSinkNameMax = 64;

struct IntegerOption {
  std::string_view name;
  std::int32_t store::QueueRow::* field;
};
constexpr std::array kIntegers = {
    IntegerOption{"priority", &store::QueueRow::priority},
    IntegerOption{"leaseTime", &store::QueueRow::lease_time},
    IntegerOption{"retryLimit", &store::QueueRow::retry_limit},
    IntegerOption{"retryDelay", &store::QueueRow::retry_delay},
    IntegerOption{"maxSize", &store::QueueRow::max_queue_size},
    IntegerOption{"maxQueueSize", &store::QueueRow::max_queue_size},
    IntegerOption{"ttl", &store::QueueRow::ttl},
    IntegerOption{"delayedProcessing", &store::QueueRow::delayed_processing},
    IntegerOption{"windowBuffer", &store::QueueRow::window_buffer},
    IntegerOption{"windowBufferMaxSeconds", &store::QueueRow::window_buffer_max_seconds},
    IntegerOption{"retentionSeconds", &store::QueueRow::retention_seconds},
    IntegerOption{"completedRetentionSeconds", &store::QueueRow::completed_retention_seconds},
    IntegerOption{"maxWaitTimeSeconds", &store::QueueRow::max_wait_time_seconds},
    IntegerOption{"minPopWaitTime", &store::QueueRow::min_pop_wait_time},
    IntegerOption{"dedupWindowSeconds", &store::QueueRow::dedup_window_seconds},
    IntegerOption{"retentionSinkHoldMaxSeconds", &store::QueueRow::retention_sink_hold_max_seconds},
};

struct BooleanOption {
  std::string_view name;
  bool store::QueueRow::* field;
};
constexpr std::array kBooleans = {
    BooleanOption{"deadLetterQueue", &store::QueueRow::dead_letter_queue},
    BooleanOption{"dlqAfterMaxRetries", &store::QueueRow::dlq_after_max_retries},
    BooleanOption{"retentionEnabled", &store::QueueRow::retention_enabled},
    BooleanOption{"encryptionEnabled", &store::QueueRow::encryption_enabled},
};

bool sink_name(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return text.size() <= kSinkNameMax && std::all_of(text.begin(), text.end(), allowed);
}

// Sets one option; the text is why it was refused, empty when it was not. Unknown options are ignored.
std::string set_integer(store::QueueRow& row, const std::string& name,
                        const std::optional<std::int64_t>& value) {
  const store::QueueRow defaults = store::QueueRow::configure_defaults();
  for (const BooleanOption& option : kBooleans)
    if (option.name == name) row.*option.field = value ? *value != 0 : defaults.*option.field;
  for (const IntegerOption& option : kIntegers) {
    if (option.name != name) continue;
    if (!value) {
      row.*option.field = defaults.*option.field;
      return {};
    }
    if (*value < std::numeric_limits<std::int32_t>::min() ||
        *value > std::numeric_limits<std::int32_t>::max())
      return fmt::format("{} is {}, outside the 32-bit range", name, *value);
    row.*option.field = static_cast<std::int32_t>(*value);
  }
  if (name == "retentionSinkHoldMaxSeconds" && value &&
      (*value < kHoldSecondsMin || *value > kHoldSecondsMax))
    return fmt::format("retentionSinkHoldMaxSeconds is {}, outside {} to {}", *value, kHoldSecondsMin,
                       kHoldSecondsMax);
  row.min_pop_wait_time = std::clamp(row.min_pop_wait_time, 0, kPopWaitMsMax);
  row.dedup_window_seconds = std::max(row.dedup_window_seconds, 0);
  row.window_buffer_max_seconds = std::max(row.window_buffer_max_seconds, 0);
  return {};
}

std::string set_text(store::QueueRow& row, const std::string& name, const std::optional<std::string>& value) {
  const store::QueueRow defaults = store::QueueRow::configure_defaults();
  if (name == "namespace") row.namespace_name = value ? value : defaults.namespace_name;
  if (name == "task") row.task = value ? value : defaults.task;
  if (name != "retentionSinkHold") return {};
  if (value && !sink_name(*value)) return "retentionSinkHold must be up to 64 of A-Z a-z 0-9 . _ -";
  row.retention_sink_hold = value.value_or(defaults.retention_sink_hold);
  return {};
}

std::string set_all(store::QueueRow& row, const ConfigureCommand& configure) {
  for (const auto& [name, value] : configure.integers)
    if (std::string refusal = set_integer(row, name, value); !refusal.empty()) return refusal;
  for (const auto& [name, value] : configure.texts)
    if (std::string refusal = set_text(row, name, value); !refusal.empty()) return refusal;
  return {};
}

}  // namespace

Outcome plan_configure(Cycle& cycle, const Command& command, const ConfigureCommand& configure) {
  const auto old = must(queue_row(cycle.view, command.tenant, configure.queue));
  store::QueueRow row = old && !configure.replace ? *old : store::QueueRow::configure_defaults();
  row.uuid = old ? old->uuid : configure.queue_uuid;
  row.created_at = old ? old->created_at : cycle.now;
  if (std::string refusal = set_all(row, configure); !refusal.empty())
    return {"bad_request", std::move(refusal), {}};
  if (!old || *old != row) cycle.emit(QueueUpsert{command.tenant, configure.queue, row});
  return {{}, {}, ConfigureOutcome{std::move(row)}};
}

}  // namespace queen::machine::detail
