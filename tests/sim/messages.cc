#include "messages.h"

#include <algorithm>

#include "traffic.h"

namespace queen::sim {
namespace {

constexpr std::int64_t kLeaseSecondsMax = 4;
constexpr std::int64_t kDrainQuietUs = (kLeaseSecondsMax + 1) * kSecondUs;  // no lease lasts longer

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
  Messages(Scene& scene, MessagesPlan plan)
      : scene_(scene), plan_(std::move(plan)), tasks_(scene.clients.lane) {}

  std::string_view name() const override { return "messages"; }
  void start() override;
  bool ended() const override { return tasks_.ended(); }
  void drain() override;
  void check() override;

 private:
  Task<void> run();
  Task<void> produce(Client& client);
  Task<void> push(Client& client, Batches batches);
  Task<void> consume(Client& client, Group group);
  Task<void> drain_group(Client& client, Group group);
  Task<std::optional<std::vector<ClaimSeen>>> pop(Client& client, const Group& group, bool all);
  Task<void> use(Client& client, const Group& group, ClaimSeen claim, bool all);
  Task<void> ack(Client& client, ClaimSeen claim, std::int64_t completed,
                 std::optional<machine::AckStatus> signal);
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
  return *std::find_if(plan_.queues.begin(), plan_.queues.end(),
                       [&](const auto& one) { return one.name == name; });
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
    scene_.ledger.set_rules(queue.name, {seconds * kSecondUs, true, queue.encrypted, kept(queue)});
    for (std::int64_t i = 0; i < queue.consumers; ++i) {
      const bool queue_mode = i == 0 && admin.dice().chance(50);
      const bool commit = i > 0 && admin.dice().chance(15);
      const std::string name =
          queue_mode ? std::string(machine::kQueueMode) : fmt::format("g{}{}", i / 2, commit ? "c" : "");
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
      const PartitionName where{queue.name,
                                fmt::format("p{}", dice.below(static_cast<std::uint64_t>(queue.partitions)))};
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
    Batches list(batches.begin(), batches.end());
    scene_.ledger.pushing_whole(list);
    if (dice.chance(plan_.twins_pct)) tasks_.start(push(client, list));
    co_await push(client, std::move(list));
    co_await client.sleep(dice.between(0, plan_.pause_us_max));
  }
}

// What retention may take away from the sink is known to be there first.
Task<void> Messages::push(Client& client, Batches batches) {
  const bool must_know = std::any_of(batches.begin(), batches.end(), [&](const auto& batch) {
    return queue(batch.first.queue).in_bucket && scene_.ledger.rules(batch.first.queue).retention_us > 0;
  });
  co_await push_known(scene_, client, std::move(batches),
                      must_know ? Persist::until_answered : Persist::some_tries);
}

machine::PopCommand Messages::pop_command(Client& client, const Group& group, bool all) {
  Dice& dice = client.dice();
  machine::PopCommand body = sim::pop_command(client, group.queue, group.name);
  const auto& plan = queue(group.queue);
  if (!all && dice.chance(10))
    body.partition = fmt::format("p{}", dice.below(static_cast<std::uint64_t>(plan.partitions)));
  body.batch = all ? 1000 : static_cast<std::uint32_t>(dice.pick({1, 3, 10, 100}));
  body.partitions_max = body.partition ? 1 : static_cast<std::uint32_t>(all ? 100 : dice.pick({1, 1, 2, 10}));
  body.lease_seconds = static_cast<std::int32_t>(dice.between(1, kLeaseSecondsMax));
  body.commit_on_delivery = group.commit_on_delivery;
  return body;
}

Task<std::optional<std::vector<ClaimSeen>>> Messages::pop(Client& client, const Group& group, bool all) {
  machine::PopCommand body = pop_command(client, group, all);
  const bool wait = !all && client.dice().chance(40);
  return pop_known(scene_, client, std::move(body), wait);
}

Task<void> Messages::consume(Client& client, Group group) {
  while (!scene_.quiet && !scene_.story.failed()) {
    auto claims = co_await pop(client, group, false);
    if (claims)
      for (auto& claim : *claims) co_await use(client, group, claim, false);
    if (!claims || claims->empty()) co_await client.sleep(client.dice().between(10 * kMsUs, 600 * kMsUs));
  }
}

// What a consumer does with what it got: mostly all of it, sometimes only a part, sometimes too late or
// nothing.
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
      scene_.cursors.renewed(claim.lease_id, said->outcome.renewed, kLeaseSecondsMax * kSecondUs,
                             said->before_us, said->after_us);
    if (dice.chance(50)) co_return;
  }
  if (!all) co_await client.sleep(dice.between(0, 300 * kMsUs));
  if (mood >= 14 && mood < 16) {
    const std::int64_t completed = dice.between(0, count - 1);
    const auto signal = dice.pick({machine::AckStatus::failed, machine::AckStatus::failed,
                                   machine::AckStatus::retry, machine::AckStatus::dlq});
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
    body.items.push_back(ack_item(scene_, client, claim, offset, status));
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
                      taken           ? "taken"
                      : items.empty() ? "?"
                                      : items.front().error);
  if (!taken || items.empty()) co_return;
  const bool filed = signal && items.back().dlq;
  if (signal == machine::AckStatus::failed && !filed && queue(claim.where.queue).dead_letters)
    scene_.cursors.failed(claim, to + 1, queue(claim.where.queue).retry_limit);
  if (filed || completed > 0)
    scene_.cursors.acked(claim, filed ? to + 1 : to, said->before_us, said->after_us);
}

void Messages::drain() {
  std::set<std::pair<std::string, std::string>> once;
  for (const Group& group : groups_) {
    if (group.commit_on_delivery || !once.emplace(group.queue, group.name).second) continue;
    clients_.push_back(scene_.new_client());
    tasks_.start(drain_group(*clients_.back(), group));
  }
}

// Until nothing came for longer than any lease can last, as far as the node answered.
Task<void> Messages::drain_group(Client& client, Group group) {
  std::int64_t last = scene_.world.now_us();
  while (scene_.world.now_us() - last < kDrainQuietUs && !scene_.story.failed()) {
    auto claims = co_await pop(client, group, true);
    if (!claims || !claims->empty()) last = scene_.world.now_us();
    for (std::size_t i = 0; claims && i < claims->size(); ++i)
      co_await use(client, group, (*claims)[i], true);
    if (!claims || claims->empty()) co_await client.sleep(kSecondUs);
  }
}

void Messages::check() {
  std::map<std::string, std::set<std::string>> groups;
  for (const Group& group : groups_)
    if (!group.commit_on_delivery) groups[group.queue].insert(group.name);
  for (const auto& [queue, names] : groups)
    scene_.cursors.check_all_delivered(scene_.ledger.logs(), queue, names);
}

}  // namespace

std::unique_ptr<Workload> make_messages(Scene& scene, MessagesPlan plan) {
  return std::make_unique<Messages>(scene, std::move(plan));
}

}  // namespace queen::sim
