#include "broker/call_counts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "broker/store_steps.h"

namespace queen::broker {
namespace {

using machine::AckStatus;

// What a node answers that cannot serve; other codes are about what was asked.
constexpr std::array<std::string_view, 7> kNodeErrors = {
    "internal", "retry", "no_leader", "timeout", "outcome_unknown", "storage_full", "overloaded"};
bool is_node_error(std::string_view code) {
  return std::ranges::find(kNodeErrors, code) != kNodeErrors.end();
}

// The queues of a call, each once, in order of first appearance.
class Places {
 public:
  Places(NodeMeter& meter, const store::Store& store, std::string_view tenant)
      : meter_(meter), store_(store), tenant_(tenant) {}

  std::uint32_t of_queue(std::string_view queue) {
    const auto [at, fresh] =
        queues_.try_emplace(std::string(queue), static_cast<std::uint32_t>(tallies_.size()));
    if (fresh) tallies_.push_back(meter_.of(tenant_, queue));
    return at->second;
  }
  // Of an id as sent, borrowed: a partition that the tenant does not have is of no queue.
  std::uint32_t of_partition(std::string_view id) {
    if (!partitions_.empty() && id == last_id_) return last_;
    const auto [at, fresh] = partitions_.try_emplace(id, 0);
    if (fresh) at->second = of_queue(queue_of(id));
    last_id_ = id;
    return last_ = at->second;
  }
  std::vector<Tally> take() { return std::move(tallies_); }

 private:
  std::string queue_of(std::string_view id) const {
    std::uint64_t pid = 0;
    const auto parsed = std::from_chars(id.data(), id.data() + id.size(), pid);
    if (parsed.ec != std::errc{} || parsed.ptr != id.data() + id.size()) return {};
    const auto gate = store_.read_gate();
    const auto bytes = store_.get(store::Keyspace::partitions, store::partition_key(Pid{pid}));
    if (!bytes) return {};
    auto row = decode_row<store::PartitionRow>(*bytes);
    return row.tenant == tenant_ ? std::move(row.queue) : std::string();
  }

  NodeMeter& meter_;
  const store::Store& store_;
  const std::string_view tenant_;
  std::unordered_map<std::string, std::uint32_t> queues_;
  std::vector<Tally> tallies_;
  std::unordered_map<std::string_view, std::uint32_t> partitions_;
  std::string_view last_id_;
  std::uint32_t last_ = 0;
};

struct AckMark {
  std::uint32_t place = 0;
  bool completes = false;
};
// What is counted of an ack or a transaction once its outcome is known.
struct AckPlan {
  OpCells* node = nullptr;
  bool transaction = false;
  std::vector<Tally> places;
  std::vector<AckMark> items;         // of all acks, one after the other
  std::vector<std::uint32_t> pushes;  // place of each push batch

  void count(const Answer<machine::Outcome>& answer) const;
  void count_items(std::span<const machine::AckOutcome> acks) const;
  void count_pushes(const machine::PushOutcome& push) const;
};

void AckPlan::count(const Answer<machine::Outcome>& answer) const {
  const Op call = transaction ? Op::transactions : Op::ack_requests;
  if (!answer || !answer->code.empty()) {
    node->add(Op::errors, is_node_error(answer ? answer->code : answer.error().code) ? 1 : 0);
    if (!transaction) node->add(call, 1);
    return;
  }
  const auto* whole = std::get_if<machine::TransactionOutcome>(&answer->body);
  if (whole != nullptr && !whole->reason.empty()) return;  // nothing took place
  node->add(call, 1);
  for (const Tally& place : places)
    if (place.queue) place.queue->add(call, 1);
  if (whole != nullptr) {
    count_items(whole->acks);
    count_pushes(whole->push);
  } else if (const auto* ack = std::get_if<machine::AckOutcome>(&answer->body)) {
    count_items({ack, 1});
  }
}

void AckPlan::count_items(std::span<const machine::AckOutcome> acks) const {
  struct Sum {
    std::uint64_t success = 0, failed = 0, dead = 0;
  };
  std::vector<Sum> sums(places.size());
  std::size_t next = 0;
  for (const machine::AckOutcome& ack : acks) {
    for (const machine::AckItemOutcome& item : ack.items) {
      if (next == items.size()) break;
      const AckMark& mark = items[next++];
      Sum& sum = sums[mark.place];
      ++(mark.completes && item.success ? sum.success : sum.failed);
      sum.dead += item.dlq ? 1 : 0;
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    places[i].add(Op::ack_success, sums[i].success);
    places[i].add(Op::ack_failed, sums[i].failed);
    places[i].add(Op::dead_letters, sums[i].dead);
  }
}

void AckPlan::count_pushes(const machine::PushOutcome& push) const {
  for (std::size_t i = 0; i < std::min(push.batches.size(), pushes.size()); ++i) {
    const auto stored = std::ranges::count(push.batches[i].items, machine::PushItemOutcome::Status::queued,
                                           &machine::PushItemOutcome::status);
    places[pushes[i]].add(Op::push_messages, static_cast<std::uint64_t>(stored));
  }
}

void mark_items(const machine::AckCommand& ack, Places& places, AckPlan& plan) {
  for (const machine::AckItem& item : ack.items)
    plan.items.push_back({places.of_partition(item.partition_id), item.status == AckStatus::completed});
}

LagSum lag_of(const PopPart& part, std::int64_t now_us) {
  LagSum out;
  for (const Message& message : part.messages.messages) {
    const auto late = static_cast<std::uint64_t>(std::max<std::int64_t>(0, now_us - message.ts_us));
    out.sum_us += late;
    out.max_us = std::max(out.max_us, late);
  }
  out.count = part.messages.messages.size();
  return out;
}

}  // namespace

UniqueFunction<void(Answer<PushAnswer>)> CallCounts::push(const machine::Command& command,
                                                          UniqueFunction<void(Answer<PushAnswer>)> done) {
  Places places(meter_, store_, command.tenant);
  std::vector<std::uint32_t> of_batch;
  for (const auto& batch : std::get<machine::PushCommand>(command.body).batches)
    of_batch.push_back(places.of_queue(batch.queue));
  return [&node = meter_.node(), tallies = places.take(), of_batch = std::move(of_batch),
          done = std::move(done)](Answer<PushAnswer> answer) mutable {
    node.add(Op::push_requests, 1);
    for (const Tally& tally : tallies)
      if (tally.queue) tally.queue->add(Op::push_requests, 1);
    if (!answer) {
      node.add(Op::errors, is_node_error(answer.error().code) ? 1 : 0);
    } else {
      for (std::size_t i = 0; i < std::min(answer->batches.size(), of_batch.size()); ++i) {
        const auto stored =
            std::ranges::count(answer->batches[i], PushItemAnswer::Status::queued, &PushItemAnswer::status);
        tallies[of_batch[i]].add(Op::push_messages, static_cast<std::uint64_t>(stored));
      }
    }
    done(std::move(answer));
  };
}

UniqueFunction<void(Answer<PopAnswer>)> CallCounts::pop(const machine::Command& command,
                                                        UniqueFunction<void(Answer<PopAnswer>)> done) {
  const auto& body = std::get<machine::PopCommand>(command.body);
  Tally queue{&meter_.node(), nullptr};
  if (!body.labels) queue = meter_.of(command.tenant, body.queue);
  return [this, tenant = body.labels ? command.tenant : std::string(), queue = std::move(queue),
          done = std::move(done)](Answer<PopAnswer> answer) mutable {
    count_pop(tenant, queue, answer);
    done(std::move(answer));
  };
}

// `tenant` is that of a discovery, whose claims name their queues.
void CallCounts::count_pop(const std::string& tenant, const Tally& queue, const Answer<PopAnswer>& answer) {
  queue.add(Op::pop_requests, 1);
  if (!answer) {
    queue.node->add(Op::errors, is_node_error(answer.error().code) ? 1 : 0);
    return;
  }
  const std::int64_t now = clock_.wall_us();
  std::uint64_t messages = 0;
  for (const PopPart& part : answer->parts) {
    const Tally of_part = part.claim.queue.empty() ? queue : meter_.of(tenant, part.claim.queue);
    const LagSum lag = lag_of(part, now);
    messages += lag.count;
    of_part.add(Op::pop_messages, lag.count);
    of_part.add(lag);
    of_part.add(Op::conflated, part.claim.deliver_from - part.claim.first);
  }
  queue.add(Op::pop_empty, messages == 0 ? 1 : 0);
}

CallCounts::OutcomeDone CallCounts::ack(const machine::Command& command, OutcomeDone done) {
  Places places(meter_, store_, command.tenant);
  AckPlan plan;
  plan.node = &meter_.node();
  if (const auto* ack = std::get_if<machine::AckCommand>(&command.body)) {
    plan.items.reserve(ack->items.size());
    mark_items(*ack, places, plan);
  } else if (const auto* whole = std::get_if<machine::TransactionCommand>(&command.body)) {
    plan.transaction = true;
    for (const auto& part : whole->acks) mark_items(part, places, plan);
    for (const auto& batch : whole->push.batches) plan.pushes.push_back(places.of_queue(batch.queue));
  }
  plan.places = places.take();
  return [plan = std::move(plan), done = std::move(done)](Answer<machine::Outcome> answer) mutable {
    plan.count(answer);
    done(std::move(answer));
  };
}

void CallCounts::entry(const machine::Entry& entry) {
  for (const machine::Effect& effect : entry.effects) {
    if (const auto* made = std::get_if<machine::PartitionCreate>(&effect)) {
      meter_.of(made->tenant, made->queue).add(Op::partitions_created, 1);
    } else if (const auto* gone = std::get_if<machine::PartitionDelete>(&effect)) {
      const auto gate = store_.read_gate();
      const auto bytes = store_.get(store::Keyspace::partitions, store::partition_key(gone->pid));
      if (!bytes) continue;
      const auto row = decode_row<store::PartitionRow>(*bytes);
      meter_.of(row.tenant, row.queue).add(Op::partitions_deleted, 1);
    }
  }
}

}  // namespace queen::broker
