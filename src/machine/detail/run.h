// What the run_*.cc files share: where an effect runs, counters, pending rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "machine/detail/lookup.h"
#include "machine/effects.h"

namespace queen::machine::detail {

using store::Counter;
using store::CounterScope;

struct Where {
  View& view;
  EntryIndex index;
  std::uint32_t ordinal = 0;
  std::int64_t now_us = 0;
};

// The effect contradicts the rows: the node must stop.
Error fatal(std::string what);

enum class Fold : std::uint8_t { add, greatest };
Status count(View& view, CounterScope scope, BytesView id, Counter counter, std::int64_t value, Fold fold);

void put_pending(View& view, BytesView key, std::int64_t ready_at);
// When a group may look at a partition whose cursor is given: now, or when the lease ends.
std::int64_t ready_after_lease(const std::optional<store::CursorRow>& cursor, std::int64_t now_us);

struct GroupName {
  std::string_view tenant, queue, group;
};
// Makes a partition pending for a group, when there is something for the group in it. `wanted_us` counts
// where it has no cursor: the stamp from which messages are its own.
Status arm_partition(const Where& at, const GroupName& group, Pid pid, std::int64_t wanted_us);

// The gauges of retained bytes fall by what a partition lost: by all it has when it is empty now.
enum class Left : std::uint8_t { something, nothing };
Status take_retained(const Where& at, const store::PartitionRow& partition, Pid pid, std::uint64_t bytes,
                     Left left);
// A dead letter goes, its position with it when it was the last one there.
Status erase_dead_letter(const Where& at, std::string_view tenant, std::string_view queue,
                         const Uuid& dlq_id);

Status run(const Where& at, const QueueDelete& effect);
Status run(const Where& at, const GroupDelete& effect);
Status run(const Where& at, const PartitionDelete& effect);
Status run(const Where& at, const CursorDelete& effect);
Status run(const Where& at, const DlqDelete& effect);
Status run(const Where& at, const GarbageAdd& effect);
Status run(const Where& at, const DeleteChunk& effect);
Status run(const Where& at, const Watermark& effect);
Status run(const Where& at, const TraceAppend& effect);
Status run(const Where& at, const TraceExpire& effect);
Status run(const Where& at, const TimerUpsert& effect);
Status run(const Where& at, const TimerDelete& effect);
Status run(const Where& at, const TimerBackoff& effect);
Status run(const Where& at, const StreamsQueryUpsert& effect);
Status run(const Where& at, const StreamsStatePut& effect);
Status run(const Where& at, const StreamsStateDelete& effect);
Status run(const Where& at, const FlagSet& effect);
Status run(const Where& at, const QuotaSet& effect);
Status run(const Where& at, const EphemeralConfigSet& effect);
Status run(const Where& at, const EphemeralConfigDelete& effect);

}  // namespace queen::machine::detail
