#include "messages.h"

#include <algorithm>

namespace queen::sim {
namespace {

constexpr std::int64_t kCallTimeoutUs = 10 * kSecondUs;
constexpr std::int64_t kLeaseSecondsMax = 4;
constexpr std::int64_t kDrainQuietUs = (kLeaseSecondsMax + 1) * kSecondUs;  // no lease lasts longer

using PushAnswered = broker::Answer<broker::PushAnswer>;
using PopAnswered = broker::Answer<broker::PopAnswer>;

Kept kept(const MessageQueuePlan& queue) {
  if (queue.retention_seconds > 0) return Kept::nothing;
  return queue.completed_retention_seconds > 0 ? Kept::unread : Kept::all;
}

struct Group {
  std::string queue, name;
  bool commit_on_delivery = false;
};

class Messages final : public Workload {
 public:
  Messages(Scene& scene, MessagesPlan plan) : scene_(scene), plan_(std::move(plan)), tasks_(scene.clients.lane) {}

  std::string_view name() const override { return "messages"; }
  void start() override;
  bool ended() const override { return tasks_.ended(); }
  void drain() override;
  void check() override;

 private:
  Task<void> run();
  Task<void> produce(Client& client);
  Task<void> push(Client& client, std::vector<std::pair<PartitionName, std::vector<std::string>>> batches);
  bool note_pushed(Client& client, const std::vector<std::pair<PartitionName, std::vector<std::string>>>& batches,
                   const std::optional<Reply<PushAnswered>>& reply);
  Task<void> consume(Client& client, Group group);
  Task<void> drain_group(Client& client, Group group);
  Task<std::optional<std::vector<ClaimSeen>>> pop(Client& client, const Group& group, bool all);
  Task<void> use(Client& client, const Group& group, ClaimSeen claim, bool all);
  Task<void> ack(Client& client, ClaimSeen claim, std::int64_t completed, std::optional<machine::AckStatus> signal);
  void take_part(const Group& group, const broker::PopPart& part, ClaimSeen claim,
                 std::vector<ClaimSeen>& claims);
  machine::PopCommand pop_command(Client& client, const Group& group, bool all);
  const MessageQueuePlan& queue(const std::string& name) const;

  Scene& scene_;
  MessagesPlan plan_;
  Tasks tasks_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Group> groups_;
  std::uint64_t ids_ = 0;
};

const MessageQueuePlan& Messages::queue(const std::string& name) const {
  return *std::find_if(plan_.queues.begin(), plan_.queues.end(), [&](const auto& one) { return one.name == name; });
}

void Messages::start() {
  clients_.push_back(scene_.new_client());
  tasks_.start(run());
}

Task<void> Messages::run() {
  Client& admin = *clients_.front();
  for (const auto& queue : plan_.queues) {
    machine::ConfigureCommand body;
    body.queue = queue.name;
    body.queue_uuid = admin.uuid();
    body.integers = {{"leaseTime", 2},
                     {"retryLimit", queue.retry_limit},
                     {"deadLetterQueue", queue.dead_letters},
                     {"dlqAfterMaxRetries", queue.dead_letters},
                     {"encryptionEnabled", queue.encrypted},
                     {"retentionEnabled", queue.retention_seconds + queue.completed_retention_seconds > 0},
                     {"retentionSeconds", queue.retention_seconds},
                     {"completedRetentionSeconds", queue.completed_retention_seconds}};
    body.texts = {{"namespace", "sim"}};
    if (queue.hold) body.texts["retentionSinkHold"] = "default";
    co_await configure(admin, body);
    const std::int64_t seconds = std::max(queue.retention_seconds, queue.completed_retention_seconds);
    scene_.ledger.set_rules(queue.name, {seconds * kSecondUs, true, queue.encrypted});
    for (std::int64_t i = 0; i < queue.consumers; ++i) {
      const bool queue_mode = i == 0 && admin.dice().chance(50);
      const bool commit = i > 0 && admin.dice().chance(15);
      const std::string name = queue_mode ? std::string(machine::kQueueMode) : fmt::format("g{}{}", i / 2, commit ? "c" : "");
      groups_.push_back({queue.name, name, commit});
    }
  }
  for (std::int64_t i = 0; i < plan_.producers; ++i) {
    clients_.push_back(scene_.new_client());
    tasks_.start(produce(*clients_.back()));
  }
  for (const Group& group : groups_) {
    clients_.push_back(scene_.new_client());
    tasks_.start(consume(*clients_.back(), group));
  }
}

Task<void> Messages::produce(Client& client) {
  Dice& dice = client.dice();
  std::vector<std::string> used;
  for (std::int64_t i = 0; i < plan_.pushes && !scene_.quiet; ++i) {
    std::map<PartitionName, std::vector<std::string>> batches;
    for (std::int64_t count = dice.pick({1, 1, 2, 3}); count > 0; --count) {
      const auto& queue = plan_.queues[dice.below(plan_.queues.size())];
      const PartitionName where{queue.name, fmt::format("p{}", dice.below(static_cast<std::uint64_t>(queue.partitions)))};
      auto& ids = batches[where];
      for (std::int64_t items = dice.pick({1, 1, 2, 5, 20}); items > 0; --items) {
        // A repeat names the partition that it went to, in its text.
        const std::string id = fmt::format("{}/{}/{}-{}", where.queue, where.partition, client.end(), ++ids_);
        const bool repeat = !used.empty() && dice.chance(10);
        const std::string& old = repeat ? used[dice.below(used.size())] : id;
        const bool here = old.starts_with(where.queue + "/" + where.partition + "/");
        ids.push_back(here ? old : id);
        used.push_back(ids.back());
      }
    }
    std::vector<std::pair<PartitionName, std::vector<std::string>>> list(batches.begin(), batches.end());
    scene_.ledger.pushing_whole(list);
    if (dice.chance(plan_.twins_pct)) tasks_.start(push(client, list));
    co_await push(client, std::move(list));
    co_await client.sleep(dice.between(0, plan_.pause_us_max));
  }
}

// Until it is answered, or for ever unknown.
Task<void> Messages::push(Client& client, std::vector<std::pair<PartitionName, std::vector<std::string>>> batches) {
  for (const auto& [where, ids] : batches)
    for (const auto& id : ids) scene_.ledger.sending(where, id);
  // What retention may take away from the sink is known to be there first.
  bool must_know = false;
  for (const auto& [where, ids] : batches)
    must_know = must_know || (queue(where.queue).in_bucket && scene_.ledger.rules(where.queue).retention_us > 0);
  for (int tries = 0; tries < 6 || must_know; ++tries) {
    machine::PushCommand body;
    for (const auto& [where, ids] : batches)
      body.batches.push_back(batch_of(client, where, ids, queue(where.queue).encrypted ? scene_.cipher : nullptr));
    const machine::Command command = command_of(client, std::move(body));
    Client::Start<PushAnswered> start = [command](broker::Broker& broker, UniqueFunction<void(PushAnswered)> done) {
      broker.push(command, std::move(done));
    };
    ++scene_.calls;
    const auto reply = co_await client.call<PushAnswered>(std::move(start), kCallTimeoutUs);
    if (note_pushed(client, batches, reply)) co_return;
    if (scene_.quiet && !must_know && client.dice().chance(50)) co_return;
    co_await client.sleep(client.dice().between(0, kSecondUs));
  }
}

bool Messages::note_pushed(Client& client,
                           const std::vector<std::pair<PartitionName, std::vector<std::string>>>& batches,
                           const std::optional<Reply<PushAnswered>>& reply) {
  if (!reply) return false;
  ++scene_.answers;
  if (!reply->value) {
    client.story().note("client", "{} push refused: {}", client.end(), reply->value.error().code);
    return false;
  }
  for (std::size_t b = 0; b < batches.size(); ++b) {
    for (std::size_t i = 0; i < batches[b].second.size(); ++i) {
      const auto& item = reply->value->batches.at(b).at(i);
      const bool queued = item.status == broker::PushItemAnswer::Status::queued;
      if (item.status == broker::PushItemAnswer::Status::error) continue;
      client.story().note("client", "{} pushed {} at {} {}", client.end(), batches[b].second[i], item.offset,
                          queued ? "" : "(repeat)");
      scene_.ledger.stored(batches[b].first, batches[b].second[i], item.offset,
                           queued ? std::optional(reply->before_us) : std::nullopt, reply->after_us);
    }
  }
  return true;
}

machine::PopCommand Messages::pop_command(Client& client, const Group& group, bool all) {
  Dice& dice = client.dice();
  machine::PopCommand body;
  const auto& plan = queue(group.queue);
  if (!all && dice.chance(10)) body.partition = fmt::format("p{}", dice.below(static_cast<std::uint64_t>(plan.partitions)));
  body.queue = group.queue;
  body.group = group.name;
  body.batch = all ? 1000 : static_cast<std::uint32_t>(dice.pick({1, 3, 10, 100}));
  body.partitions_max = body.partition ? 1 : static_cast<std::uint32_t>(all ? 100 : dice.pick({1, 1, 2, 10}));
  body.lease_seconds = static_cast<std::int32_t>(dice.between(1, kLeaseSecondsMax));
  body.commit_on_delivery = group.commit_on_delivery;
  body.subscription.mode = machine::Subscription::Mode::all;
  body.lease_id = client.uuid();
  body.queue_uuid = client.uuid();
  body.group_uuid = client.uuid();
  return body;
}

Task<std::optional<std::vector<ClaimSeen>>> Messages::pop(Client& client, const Group& group, bool all) {
  machine::PopCommand body = pop_command(client, group, all);
  const bool wait = !all && client.dice().chance(40);
  const machine::Command command = command_of(client, body);
  Client::Start<PopAnswered> start = [command, wait, &scene = scene_](broker::Broker& broker,
                                                                      UniqueFunction<void(PopAnswered)> done) {
    const std::int64_t until = scene.node.calls().clock().mono_us() + 2 * kSecondUs;
    broker.pop(command, wait, until, std::move(done));
  };
  ++scene_.calls;
  const auto reply = co_await client.call<PopAnswered>(std::move(start), kCallTimeoutUs);
  if (!reply) co_return std::nullopt;
  ++scene_.answers;
  if (!reply->value) {
    client.story().note("client", "{} pop refused: {}", client.end(), reply->value.error().code);
    co_return std::nullopt;
  }
  std::vector<ClaimSeen> claims;
  for (const auto& part : reply->value->parts)
    take_part(group, part,
              {{}, group.name, body.lease_id.str(), 0, 0, 0, body.lease_seconds * kSecondUs, reply->before_us,
               reply->after_us, kept(queue(group.queue))},
              claims);
  co_return claims;
}

void Messages::take_part(const Group& group, const broker::PopPart& part, ClaimSeen claim,
                         std::vector<ClaimSeen>& claims) {
  claim.where = {group.queue, part.claim.partition};
  claim.pid = part.claim.pid.value;
  claim.first = static_cast<std::int64_t>(part.claim.first);
  claim.last = static_cast<std::int64_t>(part.claim.last);
  std::int64_t next = claim.first;
  for (const auto& message : part.messages.messages) {
    if (static_cast<std::int64_t>(message.offset) != next++)
      return scene_.story.violate("delivered in order", "{}/{} offset {}: not the next", group.queue,
                                  part.claim.partition, message.offset);
    scene_.ledger.seen(claim.where, {message.offset, message.ts_us, std::string(message.transaction_id),
                                     std::string(message.payload)});
  }
  scene_.story.note("client", "group {} given {}/{} {}..{} of lease {}, {} to {}", group.name, group.queue,
                    part.claim.partition, claim.first, claim.last, claim.lease_id, claim.before_us, claim.after_us);
  claim.last = next - 1;  // a claim that could not be read whole is cut
  if (claim.last < claim.first) return;
  if (group.commit_on_delivery) {
    scene_.cursors.delivered_for_good(claim.where, group.name, claim.first, claim.last);
  } else {
    scene_.cursors.claimed(claim);
    claims.push_back(std::move(claim));
  }
}

Task<void> Messages::consume(Client& client, Group group) {
  while (!scene_.quiet && !scene_.story.failed()) {
    auto claims = co_await pop(client, group, false);
    if (claims)
      for (auto& claim : *claims) co_await use(client, group, claim, false);
    if (!claims || claims->empty()) co_await client.sleep(client.dice().between(10 * kMsUs, 600 * kMsUs));
  }
}

// What a consumer does with what it got: mostly all of it, sometimes only a part, sometimes too late or nothing.
Task<void> Messages::use(Client& client, const Group& /*group*/, ClaimSeen claim, bool all) {
  Dice& dice = client.dice();
  const std::int64_t count = claim.last - claim.first + 1;
  const std::uint64_t mood = all ? 0 : dice.below(20);
  if (!all && dice.chance(queue(claim.where.queue).failing_pct))
    co_return co_await ack(client, claim, 0, machine::AckStatus::failed);
  if (mood >= 18) co_return;  // vanishes
  if (mood == 17) co_await client.sleep(dice.between(kSecondUs, (kLeaseSecondsMax + 1) * kSecondUs));
  if (mood == 16) {
    scene_.cursors.renewing(claim.lease_id);
    machine::RenewCommand renew;
    renew.lease_id = claim.lease_id;
    renew.seconds = kLeaseSecondsMax;
    const auto said = co_await submit<machine::RenewOutcome>(client, std::move(renew), kCallTimeoutUs);
    if (said && said->code.empty())
      scene_.cursors.renewed(claim.lease_id, said->outcome.renewed, kLeaseSecondsMax * kSecondUs, said->before_us,
                             said->after_us);
    if (dice.chance(50)) co_return;
  }
  if (!all) co_await client.sleep(dice.between(0, 300 * kMsUs));
  if (mood >= 14 && mood < 16) {
    const std::int64_t completed = dice.between(0, count - 1);
    const auto signal = dice.pick({machine::AckStatus::failed, machine::AckStatus::failed, machine::AckStatus::retry,
                                   machine::AckStatus::dlq});
    co_return co_await ack(client, claim, completed, signal);
  }
  if (mood == 13 || mood == 11) co_await ack(client, claim, dice.between(1, count), std::nullopt);
  if (mood == 11) {  // of less than before, and then nothing
    co_await ack(client, claim, 1, std::nullopt);
    co_return;
  }
  co_await ack(client, claim, count, std::nullopt);
  if (mood == 12) co_await ack(client, claim, count, std::nullopt);  // once more
}

// The first `completed` messages as done, and the one behind them as `signal` says.
Task<void> Messages::ack(Client& client, ClaimSeen claim, std::int64_t completed,
                         std::optional<machine::AckStatus> signal) {
  machine::AckCommand body;
  body.group = claim.group;
  const auto item = [&](std::int64_t offset, machine::AckStatus status) {
    machine::AckItem one;
    one.partition_id = std::to_string(claim.pid);
    one.lease_id = claim.lease_id;
    one.transaction_id = scene_.ledger.transaction_at(claim.where, static_cast<std::uint64_t>(offset));
    one.hash = xxh3_128(one.transaction_id);
    one.status = status;
    one.dlq_id = client.uuid();
    body.items.push_back(std::move(one));
  };
  const bool each = client.dice().chance(30);
  for (std::int64_t i = each ? 0 : std::max<std::int64_t>(0, completed - 1); i < completed; ++i)
    item(claim.first + i, machine::AckStatus::completed);
  if (signal) item(claim.first + completed, *signal);
  const std::int64_t to = claim.first + completed - 1;
  const bool ends = signal || to == claim.last;
  scene_.cursors.acking(claim, signal ? to + 1 : to, ends);
  ++scene_.calls;
  const auto said = co_await submit<machine::AckOutcome>(client, std::move(body), kCallTimeoutUs, true);
  if (!said || !said->code.empty()) co_return;
  ++scene_.answers;
  const auto& items = said->outcome.items;
  const bool taken = std::all_of(items.begin(), items.end(), [](const auto& one) { return one.success; });
  client.story().note("client", "{} acked {}/{} to {}{} group {}: {}", client.end(), claim.where.queue,
                      claim.where.partition, to, signal ? " and a signal" : "", claim.group,
                      taken ? "taken" : items.empty() ? "?" : items.front().error);
  if (!taken || items.empty()) co_return;
  const bool filed = signal && items.back().dlq;
  if (signal == machine::AckStatus::failed && !filed && queue(claim.where.queue).dead_letters)
    scene_.cursors.failed(claim, to + 1, queue(claim.where.queue).retry_limit);
  if (filed || completed > 0) scene_.cursors.acked(claim, filed ? to + 1 : to, said->before_us, said->after_us);
}

void Messages::drain() {
  std::set<std::pair<std::string, std::string>> once;
  for (const Group& group : groups_) {
    if (group.commit_on_delivery || !once.emplace(group.queue, group.name).second) continue;
    clients_.push_back(scene_.new_client());
    tasks_.start(drain_group(*clients_.back(), group));
  }
}

// Until nothing came for longer than any lease can last.
Task<void> Messages::drain_group(Client& client, Group group) {
  std::int64_t last = scene_.world.now_us();
  while (scene_.world.now_us() - last < kDrainQuietUs && !scene_.story.failed()) {
    auto claims = co_await pop(client, group, true);
    if (claims && !claims->empty()) {
      last = scene_.world.now_us();
      for (auto& claim : *claims) co_await use(client, group, claim, true);
    } else {
      co_await client.sleep(kSecondUs);
    }
  }
}

void Messages::check() {
  std::map<std::string, std::set<std::string>> groups;
  for (const Group& group : groups_)
    if (!group.commit_on_delivery) groups[group.queue].insert(group.name);
  for (const auto& [queue, names] : groups) scene_.cursors.check_all_delivered(scene_.ledger.logs(), queue, names);
}

}  // namespace

std::unique_ptr<Workload> make_messages(Scene& scene, MessagesPlan plan) {
  return std::make_unique<Messages>(scene, std::move(plan));
}

}  // namespace queen::sim
