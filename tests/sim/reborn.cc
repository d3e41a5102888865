#include "reborn.h"

#include "broker/dead_letters.h"
#include "reborn_book.h"
#include "traffic.h"

namespace queen::sim {
namespace {

using PushAnswered = broker::Answer<broker::PushAnswer>;
using PopAnswered = broker::Answer<broker::PopAnswer>;
using ItemStatus = broker::PushItemAnswer::Status;
using machine::AckStatus;

constexpr const char* kGroups[] = {"old", "__QUEUE_MODE__"};
constexpr std::int64_t kDrainQuietUs = 5 * kSecondUs;  // longer than a lease
constexpr int kTriesMax = 4;

struct Claimed {
  std::string partition, group, lease_id;
  std::uint64_t pid = 0;
  std::vector<std::string> ids;
};

class Reborn final : public Workload {
 public:
  Reborn(Scene& scene, RebornPlan plan)
      : scene_(scene), plan_(std::move(plan)), tasks_(scene.clients.lane), book_(scene.story) {}

  std::string_view name() const override { return "reborn"; }
  void start() override;
  bool ended() const override { return tasks_.ended(); }
  void drain() override;
  void check() override;

 private:
  Task<void> produce(Client& client);
  Task<void> push(Client& client, std::string partition, std::vector<std::string> ids);
  void note_pushed(const std::string& partition, const std::vector<std::string>& ids,
                   const Reply<PushAnswered>& reply);
  Task<void> destroy(Client& client);
  Task<void> consume(Client& client, std::string group, bool drains);
  // Nothing: no answer.
  Task<std::optional<std::vector<Claimed>>> pop(Client& client, std::string group, std::uint32_t batch);
  Task<void> ack(Client& client, Claimed claim, bool fails);
  std::vector<std::string> draw_ids(Client& client, const std::string& partition);

  Scene& scene_;
  RebornPlan plan_;
  Tasks tasks_;
  RebornBook book_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::map<std::string, std::vector<std::string>> used_;  // ids by partition, for repeats
  std::uint64_t numbers_ = 0;
};

void Reborn::start() {
  const auto add = [&]() -> Client& { return *clients_.emplace_back(scene_.new_client()); };
  for (std::int64_t i = 0; i < plan_.producers; ++i) tasks_.start(produce(add()));
  for (std::int64_t i = 0; i < plan_.consumers; ++i) tasks_.start(consume(add(), kGroups[i % 2], false));
  tasks_.start(destroy(add()));
}

std::vector<std::string> Reborn::draw_ids(Client& client, const std::string& partition) {
  Dice& dice = client.dice();
  std::set<std::string> ids;
  auto& used = used_[partition];
  for (std::int64_t count = dice.pick({1, 1, 2, 5}); count > 0; --count) {
    if (!used.empty() && dice.chance(20)) {
      ids.insert(used[dice.below(used.size())]);
      continue;
    }
    used.push_back(fmt::format("{}/{}", partition, ++numbers_));
    ids.insert(used.back());
  }
  return {ids.begin(), ids.end()};
}

Task<void> Reborn::produce(Client& client) {
  Dice& dice = client.dice();
  for (std::int64_t i = 0; i < plan_.pushes && !scene_.quiet && !scene_.story.failed(); ++i) {
    const std::string partition =
        fmt::format("p{}", dice.below(static_cast<std::uint64_t>(plan_.partitions)));
    std::vector<std::string> ids = draw_ids(client, partition);
    co_await push(client, partition, std::move(ids));
    co_await client.sleep(dice.between(0, plan_.pause_us_max));
  }
}

Task<void> Reborn::push(Client& client, std::string partition, std::vector<std::string> ids) {
  const PartitionName where{plan_.queue, partition};
  for (int tries = 0; tries < kTriesMax; ++tries) {
    for (const auto& id : ids) book_.sending(partition, id);
    machine::PushCommand body;
    body.batches.push_back(batch_of(client, where, ids, nullptr));
    const machine::Command command = command_of(client, std::move(body));
    Client::Start<PushAnswered> start = [command](broker::Broker& broker,
                                                  UniqueFunction<void(PushAnswered)> done) {
      broker.push(command, std::move(done));
    };
    ++scene_.calls;
    const auto reply = co_await client.call<PushAnswered>(std::move(start), kCallTimeoutUs);
    if (reply && reply->value) {
      note_pushed(partition, ids, *reply);
      co_return;
    }
    if (reply && changed_nothing(reply->value.error().code))
      for (const auto& id : ids) book_.refused(partition, id);
    if (scene_.quiet) co_return;
    co_await client.sleep(client.dice().between(0, kSecondUs));
  }
}

void Reborn::note_pushed(const std::string& partition, const std::vector<std::string>& ids,
                         const Reply<PushAnswered>& reply) {
  ++scene_.answers;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto& item = reply.value->batches.at(0).at(i);
    if (item.status == ItemStatus::error) {
      book_.refused(partition, ids[i]);
      continue;
    }
    const bool repeat = item.status == ItemStatus::duplicate;
    scene_.story.note("client", "pushed {} to {} at {}{} in ({}, {}]", ids[i], plan_.queue, item.offset,
                      repeat ? " (repeat)" : "", reply.before_us, reply.after_us);
    book_.stored(partition, ids[i], item.offset, repeat, {reply.before_us, reply.after_us});
  }
}

Task<void> Reborn::destroy(Client& client) {
  Dice& dice = client.dice();
  for (std::int64_t i = 0; i < plan_.deletions && !scene_.quiet && !scene_.story.failed(); ++i) {
    co_await client.sleep(dice.between(kMsUs, 4 * plan_.pause_us_max));
    machine::QueueDeleteCommand body;
    body.queue = plan_.queue;
    book_.deleting();
    ++scene_.calls;
    const auto said = co_await submit<machine::QueueDeleteOutcome>(client, std::move(body), kCallTimeoutUs);
    if (!said) continue;
    ++scene_.answers;
    client.story().note("client", "{} deletes {}: {}{} in ({}, {}]", client.end(), plan_.queue,
                        said->outcome.existed ? "existed" : "nothing there", said->code, said->before_us,
                        said->after_us);
    if (said->code.empty())
      book_.deleted(said->outcome.existed, {said->before_us, said->after_us});
    else
      book_.not_deleted();
  }
}

Task<std::optional<std::vector<Claimed>>> Reborn::pop(Client& client, std::string group,
                                                      std::uint32_t batch) {
  machine::PopCommand body = pop_command(client, plan_.queue, group);
  body.batch = batch;
  const machine::Command command = command_of(client, body);
  const bool wait = !scene_.quiet && client.dice().chance(40);
  Client::Start<PopAnswered> start = [command, wait, this](broker::Broker& broker,
                                                           UniqueFunction<void(PopAnswered)> done) {
    broker.pop(command, wait, scene_.node.calls().clock().mono_us() + kSecondUs, std::move(done));
  };
  ++scene_.calls;
  const auto reply = co_await client.call<PopAnswered>(std::move(start), kCallTimeoutUs);
  if (!reply || !reply->value) co_return std::nullopt;
  std::vector<Claimed> claims;
  ++scene_.answers;
  for (const auto& part : reply->value->parts) {
    Claimed claim{part.claim.partition, group, body.lease_id.str(), part.claim.pid.value, {}};
    for (const auto& message : part.messages.messages) {
      claim.ids.emplace_back(message.transaction_id);
      scene_.story.note("client", "{} given {} offset {} {} stamped {} in ({}, {}]", group, claim.partition,
                        message.offset, claim.ids.back(), message.ts_us, reply->before_us, reply->after_us);
      book_.given(claim.partition, group,
                  {message.offset, message.ts_us, claim.ids.back(), std::string(message.payload)},
                  {reply->before_us, reply->after_us});
    }
    if (!claim.ids.empty()) claims.push_back(std::move(claim));
  }
  co_return claims;
}

Task<void> Reborn::consume(Client& client, std::string group, bool drains) {
  Dice& dice = client.dice();
  std::int64_t last = scene_.world.now_us();
  const auto goes_on = [&] {
    if (scene_.story.failed()) return false;
    return drains ? scene_.world.now_us() - last < kDrainQuietUs : !scene_.quiet;
  };
  while (goes_on()) {
    const auto batch = static_cast<std::uint32_t>(drains ? 1000 : dice.pick({1, 3, 20}));
    const auto claims = co_await pop(client, group, batch);
    const bool none = !claims || claims->empty();
    if (!claims || !none) last = scene_.world.now_us();
    for (std::size_t i = 0; !none && i < claims->size(); ++i)
      if (drains || !dice.chance(10)) co_await ack(client, (*claims)[i], !drains && dice.chance(20));
    co_await client.sleep(dice.between(0, none ? 500 * kMsUs : plan_.pause_us_max));
  }
}

// The queue may be another by now.
Task<void> Reborn::ack(Client& client, Claimed claim, bool fails) {
  machine::AckCommand body;
  body.group = claim.group;
  for (const auto& id : claim.ids) {
    machine::AckItem& item = body.items.emplace_back();
    item.partition_id = std::to_string(claim.pid);
    item.lease_id = claim.lease_id;
    item.transaction_id = id;
    item.hash = xxh3_128(id);
    item.status = fails ? AckStatus::dlq : AckStatus::completed;
    item.dlq_id = client.uuid();
  }
  ++scene_.calls;
  const auto said = co_await submit<machine::AckOutcome>(client, std::move(body), kCallTimeoutUs, true);
  if (said) ++scene_.answers;
}

void Reborn::drain() {
  for (const char* group : kGroups) {
    clients_.push_back(scene_.new_client());
    tasks_.start(consume(*clients_.back(), group, true));
  }
}

void Reborn::check() {
  std::map<std::string, PartitionRead> logs;
  for (std::int64_t i = 0; i < plan_.partitions; ++i) {
    const std::string partition = fmt::format("p{}", i);
    auto log = scene_.ledger.read(scene_.node, {plan_.queue, partition});
    if (!log) return;
    logs.emplace(partition, std::move(*log));
  }
  book_.check(logs, {std::begin(kGroups), std::end(kGroups)});
  const std::string tenant(kDefaultTenant);
  const auto& letters = scene_.node.broker().dead_letters();
  for (const Uuid& id : letters.of_queue(tenant, plan_.queue, std::nullopt))
    if (const auto letter = letters.by_id(tenant, id))
      book_.check_letter(letter->row.transaction_id, letter->row.failed_at);
}

}  // namespace

RebornPlan draw_reborn(Dice& dice, bool small, bool /*encrypted*/) {
  RebornPlan out;
  out.partitions = dice.pick({1, 2, 4});
  out.producers = dice.pick({1, 2});
  out.consumers = dice.pick({0, 1, 2});
  out.pushes = small ? dice.pick({3, 5, 8}) : dice.pick({10, 30, 60});
  out.deletions = small ? dice.pick({1, 2, 4}) : dice.pick({3, 10});
  out.pause_us_max = dice.pick({kMsUs, 50 * kMsUs, 300 * kMsUs});
  return out;
}

std::unique_ptr<Workload> make_reborn(Scene& scene, RebornPlan plan) {
  return std::make_unique<Reborn>(scene, std::move(plan));
}

}  // namespace queen::sim
