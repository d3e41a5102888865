// A node without disk and network: plans a cycle, sends the entry through its bytes, applies it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "machine/apply.h"
#include "machine/commands.h"
#include "machine/effects.h"
#include "machine/planner.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::machine::testing {

inline const std::string kTenant{kDefaultTenant};
constexpr std::int64_t kSecond = 1'000'000;

inline Uuid numbered_uuid(std::uint64_t number) {
  Uuid id;
  for (int i = 0; i < 8; ++i) id.bytes[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
  return id;
}

// A batch with one small frame per id.
inline PushBatch batch_of(const std::string& queue, const std::string& partition,
                          const std::vector<std::string>& ids) {
  PushBatch batch;
  batch.queue = queue;
  batch.partition = partition;
  for (const std::string& id : ids) {
    batch.hashes += xxh3_128(id).view();
    batch.frames += "<" + id + ">";
    batch.frame_ends.push_back(static_cast<std::uint32_t>(batch.frames.size()));
  }
  auto stored = std::make_shared<StoredPayload>();
  stored->bytes = batch.frames;
  stored->raw_bytes = static_cast<std::uint32_t>(batch.frames.size());
  batch.stored = std::move(stored);
  return batch;
}

class Node {
 public:
  store::Store store;
  Planner planner{store};
  std::int64_t now = 1'700'000'000'000'000;
  std::uint64_t next_index = 1;
  std::uint64_t next_uuid = 1;
  std::vector<Entry> entries;  // every applied one, as it was decoded

  template <class Body>
  Command command(Body body, const std::string& tenant = kTenant) {
    return {tenant, numbered_uuid(next_uuid++), std::move(body)};
  }

  // Plans the commands into one entry and applies it.
  std::vector<Outcome> run(const std::vector<Command>& commands) {
    PlannedCycle cycle = plan(commands);
    if (cycle.entry) apply(*cycle.entry);
    return std::move(cycle.outcomes);
  }
  template <class Out, class Body>
  Out one(Body body, const std::string& tenant = kTenant) {
    std::vector<Command> commands;
    commands.push_back(command(std::move(body), tenant));
    std::vector<Outcome> outcomes = run(commands);
    EXPECT_EQ(outcomes.at(0).code, "");
    return std::get<Out>(outcomes.at(0).body);
  }

  PlannedCycle plan(const std::vector<Command>& commands) {
    std::vector<const Command*> pointers;
    for (const Command& each : commands) pointers.push_back(&each);
    return planner.plan(pointers, EntryIndex{next_index}, now);
  }
  Applied apply(const Entry& planned) {
    const Bytes bytes = encode_entry(planned);
    const auto entry = decode_entry(bytes);
    EXPECT_TRUE(entry.has_value()) << (entry ? "" : entry.error().what);
    const auto applied = apply_entry(store, EntryIndex{next_index}, 0, *entry);
    EXPECT_TRUE(applied.has_value()) << (applied ? "" : applied.error().what);
    planner.applied(EntryIndex{next_index});
    ++next_index;
    entries.push_back(*entry);
    return *applied;
  }

  PushBatchOutcome push(const std::string& partition, const std::vector<std::string>& ids,
                        const std::string& queue = "q") {
    PushCommand push;
    push.batches.push_back(batch_of(queue, partition, ids));
    return one<PushOutcome>(std::move(push)).batches.at(0);
  }
  PopCommand pop_command(std::uint32_t batch = 200) {
    PopCommand pop;
    pop.queue = "q";
    pop.batch = batch;
    pop.lease_id = numbered_uuid(next_uuid++);
    pop.queue_uuid = numbered_uuid(next_uuid++);
    pop.group_uuid = numbered_uuid(next_uuid++);
    last_lease = pop.lease_id.str();
    return pop;
  }
  PopOutcome pop(std::uint32_t batch = 200) { return one<PopOutcome>(pop_command(batch)); }
  // Pops and settles all of it, as the broker does once it has read the messages.
  PopOutcome consume(PopCommand pop) {
    pop.commit_on_delivery = true;
    PopOutcome out = one<PopOutcome>(pop);
    settle(pop, out);
    return out;
  }
  void settle(const PopCommand& pop, const PopOutcome& out) {
    HandBackCommand ends{pop.group, pop.lease_id, {}, {}, {}};
    for (const auto& claim : out.claims)
      ends.settled.push_back({claim.pid, static_cast<std::int64_t>(claim.last)});
    EXPECT_TRUE(one<HandBackOutcome>(std::move(ends)).lost.empty());
  }
  AckItem ack_item(Pid pid, const std::string& id, AckStatus status, const std::string& lease) {
    AckItem item;
    item.partition_id = std::to_string(pid.value);
    item.lease_id = lease;
    item.hash = xxh3_128(id);
    item.transaction_id = id;
    item.status = status;
    item.dlq_id = numbered_uuid(next_uuid++);
    item.payload = "payload of " + id;
    return item;
  }
  ConfigureOutcome configure(std::map<std::string, std::optional<std::int64_t>> options,
                             const std::string& queue = "q") {
    ConfigureCommand configure;
    configure.queue = queue;
    configure.integers = std::move(options);
    configure.queue_uuid = numbered_uuid(next_uuid++);
    return one<ConfigureOutcome>(std::move(configure));
  }
  std::optional<store::CursorRow> cursor(Pid pid, const std::string& group = std::string(kQueueMode)) {
    const auto bytes = store.get(store::Keyspace::cursors, store::cursor_key(pid, group));
    if (!bytes) return std::nullopt;
    return *store::CursorRow::decode(*bytes);
  }
  std::optional<std::int64_t> pending(Pid pid, const std::string& group = std::string(kQueueMode)) {
    const auto bytes = store.get(store::Keyspace::pending, store::pending_key(kTenant, "q", group, pid));
    if (!bytes) return std::nullopt;
    return *store::decode_i64_row(*bytes);
  }
  std::size_t dead_letters() { return store.rows(store::Keyspace::dlq); }

  std::string last_lease;
};

}  // namespace queen::machine::testing
