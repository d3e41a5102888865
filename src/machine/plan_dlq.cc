// Dead letters after their filing: removing them, and sending one back as a message (api-messaging.md 12).
#include "machine/detail/cycle.h"

namespace queen::machine::detail {
namespace {

bool is_filed(const Cycle& cycle, const Command& command, std::string_view queue, const Uuid& dlq_id) {
  return cycle.view.get(Keyspace::dlq, store::dlq_key(command.tenant, queue, dlq_id)).has_value();
}

}  // namespace

DeadLetterDeleteOutcome plan_dead_letter_delete(Cycle& cycle, const Command& command,
                                                const DeadLetterDeleteCommand& body) {
  INVARIANT(body.ids.size() <= kDeleteChunkRowsMax, "one step of {} dead letters", body.ids.size());
  DeadLetterDeleteOutcome out;
  for (const Uuid& id : body.ids) {
    if (!is_filed(cycle, command, body.queue, id)) continue;
    cycle.emit(DlqDelete{command.tenant, body.queue, id});
    ++out.removed;
  }
  return out;
}

// The copy was prepared from the dead letter before it came here. A dead letter never changes, so all that
// can have happened meanwhile is that it went.
Outcome plan_dead_letter_replay(Cycle& cycle, const Command& command, const DeadLetterReplayCommand& body) {
  using Verdict = DeadLetterReplayOutcome::Verdict;
  using Status = PushItemOutcome::Status;
  if (!is_filed(cycle, command, body.queue, body.dlq_id))
    return {{}, {}, DeadLetterReplayOutcome{Verdict::gone, 0}};
  Outcome pushed = plan_push(cycle, command, body.copy);
  if (!pushed.code.empty()) return pushed;
  const PushItemOutcome item = std::get<PushOutcome>(pushed.body).batches.at(0).items.at(0);
  if (item.status == Status::too_large)
    return {"too_large", "the message is larger than an entry may be", {}};
  if (item.status == Status::duplicate)
    return {{}, {}, DeadLetterReplayOutcome{Verdict::duplicate, item.offset}};
  cycle.emit(DlqDelete{command.tenant, body.queue, body.dlq_id});
  return {{}, {}, DeadLetterReplayOutcome{Verdict::moved, item.offset}};
}

}  // namespace queen::machine::detail
