// Push: offsets, stamps, duplicates, and the queues and partitions that come to be with their first message
// (api-messaging.md 3.4).
#include <algorithm>

#include "machine/detail/cycle.h"

namespace queen::machine::detail {
namespace {

constexpr std::size_t kHashBytes = 16;
constexpr std::uint32_t kBuckets = 256;

using Status = PushItemOutcome::Status;

// One batch with what it meets.
struct Target {
  const Command& command;
  const PushBatch& batch;
  std::size_t ordinal = 0;  // of the batch in its command
  std::optional<store::QueueRow> queue;
  std::optional<Pid> pid;
  std::optional<store::PartitionRow> partition;
};

std::uint16_t bucket_of(std::string_view tenant, const PushBatch& batch) {
  Bytes name;
  name.reserve(tenant.size() + batch.queue.size() + batch.partition.size() + 2);
  name.append(tenant).append(1, '\x1F').append(batch.queue).append(1, '\x1F').append(batch.partition);
  return static_cast<std::uint16_t>(xxh3_64(name) % kBuckets);
}

// Fills the outcomes of items that are stored already or earlier in the batch. Returns how many are left to
// store.
std::size_t mark_duplicates(Cycle& cycle, const Target& target, PushBatchOutcome& out) {
  const PushBatch& batch = target.batch;
  auto& stored = cycle.push.stored;
  stored.assign(batch.items(), std::nullopt);
  const std::int64_t window = target.queue ? target.queue->dedup_window_seconds : 0;
  if (target.partition && window > 0)
    cycle.dedup.find(cycle.view, *target.pid, *target.partition, batch.hashes, cycle.now - window * kSecondUs,
                     stored);
  const auto& firsts = cycle.push.repeats.find(batch.hashes);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < batch.items(); ++i) {
    PushItemOutcome& item = out.items[i];
    if (stored[i]) {
      item.status = Status::duplicate;
      item.offset = *stored[i];
    } else if (firsts[i]) {
      item.status = Status::duplicate;
      item.first_in_batch = firsts[i];
    } else {
      ++kept;
    }
  }
  return kept;
}

std::shared_ptr<const StoredPayload> payload_of(const PushBatch& batch, const PushBatchOutcome& out,
                                                std::size_t kept) {
  if (kept == batch.items() && batch.stored) return batch.stored;
  auto payload = std::make_shared<StoredPayload>();
  payload->bytes.reserve(batch.frames.size());
  std::uint32_t begin = 0;
  for (std::size_t i = 0; i < batch.items(); ++i) {
    const std::uint32_t end = batch.frame_ends[i];
    if (out.items[i].status == Status::queued) payload->bytes.append(batch.frames, begin, end - begin);
    begin = end;
  }
  payload->raw_bytes = static_cast<std::uint32_t>(payload->bytes.size());
  return payload;
}

Bytes hashes_of(const PushBatch& batch, const PushBatchOutcome& out, std::size_t kept) {
  if (kept == batch.items()) return batch.hashes;
  Bytes hashes;
  hashes.reserve(kept * kHashBytes);
  for (std::size_t i = 0; i < batch.items(); ++i)
    if (out.items[i].status == Status::queued) hashes.append(batch.hashes, i * kHashBytes, kHashBytes);
  return hashes;
}

struct Place {
  std::string queue, partition;
  std::size_t ordinal = 0;  // in its command
};
void create_queue(Cycle& cycle, const Command& command, const Place& place) {
  const Uuid uuid = derived_uuid(command.request_id, "queue", place.ordinal);
  cycle.emit(QueueUpsert{command.tenant, place.queue, implicit_queue(place.queue, uuid, cycle.now)});
}
Pid create_partition(Cycle& cycle, const Command& command, const Place& place) {
  const Pid pid{cycle.log.next_pid++};
  cycle.emit(PartitionCreate{pid, derived_uuid(command.request_id, "partition", place.ordinal),
                             command.tenant, place.queue, place.partition, cycle.now});
  return pid;
}

// The queue and the partition come in the entry of their first message (P-5).
void create_missing(Cycle& cycle, Target& target) {
  if (target.queue && target.partition) return;
  const Place place{target.batch.queue, target.batch.partition, target.ordinal};
  if (!target.queue) create_queue(cycle, target.command, place);
  if (target.partition) return;
  target.pid = create_partition(cycle, target.command, place);
  target.partition.emplace();
}

void store_items(Cycle& cycle, Target& target, std::size_t kept, PushBatchOutcome& out) {
  create_missing(cycle, target);
  Append append;
  append.pid = *target.pid;
  append.bucket = bucket_of(target.command.tenant, target.batch);
  append.base_offset = static_cast<std::uint64_t>(target.partition->last_offset + 1);
  append.count = static_cast<std::uint32_t>(kept);
  append.created_at = std::max(cycle.now, target.partition->last_created_at + 1);
  append.hashes = hashes_of(target.batch, out, kept);
  append.payload = payload_of(target.batch, out, kept);
  append.payload_bytes = append.payload->raw_bytes;
  append.queue_id = out.queue_id;
  std::uint64_t offset = append.base_offset;
  for (PushItemOutcome& item : out.items)
    if (item.status == Status::queued) item.offset = offset++;
  cycle.emit(std::move(append));
}

PushBatchOutcome plan_batch(Cycle& cycle, Target target, std::uint64_t bytes_max) {
  const PushBatch& batch = target.batch;
  INVARIANT(batch.hashes.size() == batch.items() * kHashBytes && batch.items() > 0,
            "a batch of {} items with {} bytes of hashes", batch.items(), batch.hashes.size());
  INVARIANT(batch.frame_ends.back() == batch.frames.size(), "frames end at {} of {}", batch.frame_ends.back(),
            batch.frames.size());
  PushBatchOutcome out;
  out.items.resize(batch.items());
  out.queue_id = queue_id(target.command.tenant, batch.queue);
  target.queue = must(queue_row(cycle.view, target.command.tenant, batch.queue));
  target.pid = must(pid_of(cycle.view, target.command.tenant, batch.queue, batch.partition));
  if (target.pid) target.partition = must(partition_row(cycle.view, *target.pid));
  if (batch.weight() > bytes_max) {
    for (PushItemOutcome& item : out.items) item.status = Status::too_large;
  } else if (const std::size_t kept = mark_duplicates(cycle, target, out); kept > 0) {
    store_items(cycle, target, kept, out);
  }
  // An earlier item of the batch decides for its repeats; its offset is known only now.
  for (PushItemOutcome& item : out.items)
    if (item.first_in_batch) item.offset = out.items[*item.first_in_batch].offset;
  out.pid = target.pid.value_or(Pid{});
  return out;
}

}  // namespace

const std::vector<std::optional<std::uint32_t>>& RepeatFinder::find(BytesView hashes) {
  const std::size_t count = hashes.size() / kHashBytes;
  firsts_.assign(count, std::nullopt);
  if (count < 2) return firsts_;
  std::size_t want = 64;
  while (want < count * 2) want *= 2;
  if (slots_.size() < want || ++round_ == 0) {
    slots_.assign(std::max(want, slots_.size()), Slot{});
    round_ = 1;
  }
  const std::size_t mask = slots_.size() - 1;
  for (std::uint32_t i = 0; i < count; ++i) {
    const BytesView hash = hashes.substr(i * kHashBytes, kHashBytes);
    std::size_t at = load_le<std::uint64_t>(hash.data()) & mask;
    while (slots_[at].round == round_ && hashes.substr(slots_[at].index * kHashBytes, kHashBytes) != hash)
      at = (at + 1) & mask;
    if (slots_[at].round == round_)
      firsts_[i] = slots_[at].index;
    else
      slots_[at] = {round_, i};
  }
  return firsts_;
}

Pid ensure_partition(Cycle& cycle, const Command& command, std::string_view queue, std::string_view partition,
                     std::size_t ordinal) {
  const Place place{std::string(queue), std::string(partition), ordinal};
  if (!must(queue_row(cycle.view, command.tenant, queue))) create_queue(cycle, command, place);
  if (const auto pid = must(pid_of(cycle.view, command.tenant, queue, partition))) return *pid;
  return create_partition(cycle, command, place);
}

Outcome plan_push(Cycle& cycle, const Command& command, const PushCommand& push) {
  // Plaintext is never stored silently: the push is refused whole.
  for (const PushBatch& batch : push.batches) {
    if (batch.sealed) continue;
    const auto queue = must(queue_row(cycle.view, command.tenant, batch.queue));
    if (queue && queue->encryption_enabled)
      return {"encryption_required",
              "queue " + batch.queue +
                  " is encrypted, and the payloads are not: the node has no encryption key, or it failed",
              {}};
  }
  PushOutcome out;
  out.batches.reserve(push.batches.size());
  for (std::size_t i = 0; i < push.batches.size(); ++i)
    out.batches.push_back(plan_batch(cycle, {command, push.batches[i], i, {}, {}, {}}, push.batch_bytes_max));
  return {{}, {}, std::move(out)};
}

}  // namespace queen::machine::detail
