#include "traffic.h"

namespace queen::sim {
namespace {

using PushAnswered = broker::Answer<broker::PushAnswer>;
using PopAnswered = broker::Answer<broker::PopAnswer>;
using ItemStatus = broker::PushItemAnswer::Status;

constexpr int kTriesMax = 6;
constexpr std::int64_t kWaitUs = 2 * kSecondUs;

// False: something of it was not stored.
bool note_pushed(Scene& scene, const Batches& batches, const Reply<PushAnswered>& reply) {
  bool all = true;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const auto& [where, ids] = batches[b];
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto& item = reply.value->batches.at(b).at(i);
      all = all && item.status != ItemStatus::error;
      if (item.status == ItemStatus::error) continue;
      const bool queued = item.status == ItemStatus::queued;
      scene.story.note("client", "pushed {} at {} {}", ids[i], item.offset, queued ? "" : "(repeat)");
      scene.ledger.stored(where, ids[i], item.offset, queued ? std::optional(reply.before_us) : std::nullopt,
                          reply.after_us);
    }
  }
  return all;
}

// A claim that could not be read whole is cut. False: nothing of it was read.
bool take_part(Scene& scene, const broker::PopPart& part, ClaimSeen& claim) {
  claim.pid = part.claim.pid.value;
  claim.first = static_cast<std::int64_t>(part.claim.first);
  std::int64_t next = claim.first;
  for (const auto& message : part.messages.messages) {
    if (static_cast<std::int64_t>(message.offset) != next++) {
      scene.story.violate("delivered in order", "{}/{} offset {}: not the next", claim.where.queue,
                          claim.where.partition, message.offset);
      return false;
    }
    scene.ledger.seen(claim.where, {message.offset, message.ts_us, std::string(message.transaction_id),
                                    std::string(message.payload)});
  }
  claim.last = next - 1;
  scene.story.note("client", "group {} given {}/{} {}..{} of lease {}, {} to {}", claim.group,
                   claim.where.queue, claim.where.partition, claim.first, claim.last, claim.lease_id,
                   claim.before_us, claim.after_us);
  return claim.last >= claim.first;
}

}  // namespace

machine::PushCommand push_command(Scene& scene, Client& client, const Batches& batches) {
  machine::PushCommand body;
  for (const auto& [where, ids] : batches)
    body.batches.push_back(
        batch_of(client, where, ids, scene.ledger.rules(where.queue).encrypted ? scene.cipher : nullptr));
  return body;
}

Task<bool> push_known(Scene& scene, Client& client, Batches batches, Persist persist) {
  const bool must_know = persist == Persist::until_answered;
  const int most = persist == Persist::one_try ? 1 : kTriesMax;
  for (const auto& [where, ids] : batches)
    for (const auto& id : ids) scene.ledger.sending(where, id);
  for (int tries = 0; tries < most || must_know; ++tries) {
    const machine::Command command = command_of(client, push_command(scene, client, batches));
    Client::Start<PushAnswered> start = [command](broker::Broker& broker,
                                                  UniqueFunction<void(PushAnswered)> done) {
      broker.push(command, std::move(done));
    };
    ++scene.calls;
    const auto reply = co_await client.call<PushAnswered>(std::move(start), kCallTimeoutUs);
    if (reply) ++scene.answers;
    if (reply && reply->value) co_return note_pushed(scene, batches, *reply);
    if (scene.quiet && !must_know && client.dice().chance(50)) co_return false;
    co_await client.sleep(client.dice().between(0, kSecondUs));
  }
  co_return false;
}

machine::PopCommand pop_command(Client& client, const std::string& queue, const std::string& group) {
  machine::PopCommand body;
  body.queue = queue;
  body.group = group;
  body.partitions_max = 10;
  body.lease_seconds = 2;
  body.subscription.mode = machine::Subscription::Mode::all;
  body.lease_id = client.uuid();
  body.queue_uuid = client.uuid();
  body.group_uuid = client.uuid();
  return body;
}

Task<std::optional<std::vector<ClaimSeen>>> pop_known(Scene& scene, Client& client, machine::PopCommand body,
                                                      bool wait) {
  const machine::Command command = command_of(client, body);
  Client::Start<PopAnswered> start = [command, wait, &scene](broker::Broker& broker,
                                                             UniqueFunction<void(PopAnswered)> done) {
    broker.pop(command, wait, scene.node.calls().clock().mono_us() + kWaitUs, std::move(done));
  };
  ++scene.calls;
  const auto reply = co_await client.call<PopAnswered>(std::move(start), kCallTimeoutUs);
  if (reply) ++scene.answers;
  if (!reply || !reply->value) co_return std::nullopt;
  std::vector<ClaimSeen> claims;
  for (const auto& part : reply->value->parts) {
    ClaimSeen claim;
    claim.where = {body.queue, part.claim.partition};
    claim.group = body.group;
    claim.lease_id = body.lease_id.str();
    claim.lease_us = body.lease_seconds * kSecondUs;
    claim.before_us = reply->before_us;
    claim.after_us = reply->after_us;
    claim.kept = scene.ledger.rules(body.queue).kept;
    if (!take_part(scene, part, claim)) continue;
    if (body.commit_on_delivery) {
      scene.cursors.delivered_for_good(claim.where, claim.group, claim.first, claim.last);
      continue;
    }
    scene.cursors.claimed(claim);
    claims.push_back(std::move(claim));
  }
  co_return claims;
}

machine::AckItem ack_item(Scene& scene, Client& client, const ClaimSeen& claim, std::int64_t offset,
                          machine::AckStatus status) {
  machine::AckItem item;
  item.partition_id = std::to_string(claim.pid);
  item.lease_id = claim.lease_id;
  item.transaction_id = scene.ledger.transaction_at(claim.where, static_cast<std::uint64_t>(offset));
  item.hash = xxh3_128(item.transaction_id);
  item.status = status;
  item.dlq_id = client.uuid();
  return item;
}

}  // namespace queen::sim
