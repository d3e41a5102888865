#include "letters.h"

#include <algorithm>

#include "letter_book.h"
#include "traffic.h"

namespace queen::sim {
namespace {

using machine::AckStatus;
using Verdict = machine::DeadLetterReplayOutcome::Verdict;

constexpr std::int64_t kDrainQuietUs = 5 * kSecondUs;  // longer than a lease

class Letters final : public Workload {
 public:
  Letters(Scene& scene, LettersPlan plan)
      : scene_(scene), plan_(std::move(plan)), tasks_(scene.clients.lane), book_(scene.story) {}

  std::string_view name() const override { return "letters"; }
  void start() override;
  bool ended() const override { return tasks_.ended(); }
  void drain() override;
  void check() override;

 private:
  Task<void> run();
  Task<void> produce(Client& client);
  Task<void> consume(Client& client, std::string group);
  Task<void> ack(Client& client, ClaimSeen claim, bool all);
  Task<void> nurse(Client& client);
  Task<void> send_back(Client& client, Uuid id);
  Task<void> remove(Client& client, Uuid id);
  Task<void> move(Client& client);
  // True once it is answered.
  Task<bool> seek(Client& client, std::string group, std::optional<std::int64_t> since_us);
  Task<void> drain_group(Client& client, std::string group);
  machine::AckCommand draw_ack(Client& client, const ClaimSeen& claim, bool all,
                               std::vector<std::int64_t>& offsets);
  void note(const ClaimSeen& claim, const machine::AckCommand& sent, const std::vector<std::int64_t>& offsets,
            const Said<machine::AckOutcome>& said);
  std::string group_name(std::int64_t i) const { return fmt::format("ward{}", i); }

  Scene& scene_;
  LettersPlan plan_;
  Tasks tasks_;
  LetterBook book_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Uuid> ids_;  // of dead letters that may be
  std::uint64_t numbers_ = 0;
};

void Letters::start() {
  clients_.push_back(scene_.new_client());
  tasks_.start(run());
}

Task<void> Letters::run() {
  Client& admin = *clients_.front();
  machine::ConfigureCommand body;
  body.queue = plan_.queue;
  body.queue_uuid = admin.uuid();
  body.integers = {{"retryLimit", plan_.retry_limit}, {"encryptionEnabled", plan_.encrypted}};
  co_await configure(admin, body);
  scene_.ledger.set_rules(plan_.queue, {0, true, plan_.encrypted});
  const auto add = [&]() -> Client& { return *clients_.emplace_back(scene_.new_client()); };
  tasks_.start(produce(add()));
  for (std::int64_t i = 0; i < plan_.consumers; ++i)
    tasks_.start(consume(add(), group_name(i % plan_.groups)));
  if (plan_.replays > 0) tasks_.start(nurse(add()));
  if (plan_.seeks > 0) tasks_.start(move(add()));
}

Task<void> Letters::produce(Client& client) {
  Dice& dice = client.dice();
  for (std::int64_t i = 0; i < plan_.pushes && !scene_.quiet; ++i) {
    const PartitionName where{plan_.queue,
                              fmt::format("p{}", dice.below(static_cast<std::uint64_t>(plan_.partitions)))};
    std::vector<std::string> ids;
    for (std::int64_t count = dice.pick({1, 2, 5}); count > 0; --count)
      ids.push_back(fmt::format("{}/{}/{}", where.queue, where.partition, ++numbers_));
    Batches batches;
    batches.emplace_back(where, std::move(ids));
    co_await push_known(scene_, client, std::move(batches));
    co_await client.sleep(dice.between(0, plan_.pause_us_max));
  }
}

Task<void> Letters::consume(Client& client, std::string group) {
  Dice& dice = client.dice();
  while (!scene_.quiet && !scene_.story.failed()) {
    machine::PopCommand body = pop_command(client, plan_.queue, group);
    body.batch = static_cast<std::uint32_t>(dice.pick({1, 3, 10}));
    body.partitions_max = static_cast<std::uint32_t>(dice.pick({1, 3}));
    auto claims = co_await pop_known(scene_, client, std::move(body), dice.chance(40));
    if (claims)
      for (const ClaimSeen& claim : *claims)
        if (!dice.chance(8)) co_await ack(client, claim, false);
    co_await client.sleep(dice.between(0, !claims || claims->empty() ? 500 * kMsUs : plan_.pause_us_max));
  }
}

// Any mixture of statuses, each message named at most once.
machine::AckCommand Letters::draw_ack(Client& client, const ClaimSeen& claim, bool all,
                                      std::vector<std::int64_t>& offsets) {
  Dice& dice = client.dice();
  machine::AckCommand body;
  body.group = claim.group;
  for (std::int64_t offset = claim.first; offset <= claim.last; ++offset) {
    const AckStatus status =
        all || dice.chance(50)
            ? AckStatus::completed
            : dice.pick({AckStatus::failed, AckStatus::failed, AckStatus::dlq, AckStatus::retry});
    if (!all && dice.chance(10)) continue;
    body.items.push_back(ack_item(scene_, client, claim, offset, status));
    offsets.push_back(offset);
  }
  if (body.items.empty()) {
    body.items.push_back(ack_item(scene_, client, claim, claim.last, AckStatus::dlq));
    offsets.push_back(claim.last);
  }
  return body;
}

Task<void> Letters::ack(Client& client, ClaimSeen claim, bool all) {
  std::vector<std::int64_t> offsets;
  const machine::AckCommand sent = draw_ack(client, claim, all, offsets);
  for (std::size_t i = 0; i < sent.items.size(); ++i) {
    const auto& item = sent.items[i];
    if (item.status != AckStatus::failed && item.status != AckStatus::dlq) continue;
    book_.may_file(item.dlq_id, {claim.where, claim.group, offsets[i], item.transaction_id});
    ids_.push_back(item.dlq_id);
  }
  scene_.cursors.acking(claim, claim.last, true);
  machine::AckCommand body = sent;
  ++scene_.calls;
  const auto said = co_await submit<machine::AckOutcome>(client, std::move(body), kCallTimeoutUs, true);
  if (!said) co_return;
  ++scene_.answers;
  note(claim, sent, offsets, *said);
}

void Letters::note(const ClaimSeen& claim, const machine::AckCommand& sent,
                   const std::vector<std::int64_t>& offsets, const Said<machine::AckOutcome>& said) {
  const bool taken = said.code.empty();
  if (!taken) scene_.cursors.not_acked(claim, claim.last, true);
  std::int64_t settled = claim.first - 1;
  bool goes_on = taken;
  bool signalled = false;
  for (std::size_t i = 0; i < sent.items.size(); ++i) {
    const auto& item = sent.items[i];
    const bool dlq = taken && said.outcome.items.at(i).dlq;
    const bool success = taken && said.outcome.items.at(i).success;
    const bool signal = item.status != AckStatus::completed;
    scene_.story.note("client", "acked {}/{} offset {} as {} for {}: {}{}", claim.where.queue,
                      claim.where.partition, offsets[i], static_cast<int>(item.status), claim.group,
                      success ? "taken" : "not taken",
                      dlq ? fmt::format(", filed as {}", item.dlq_id.str()) : "");
    if (item.status == AckStatus::failed || item.status == AckStatus::dlq) book_.filed(item.dlq_id, dlq);
    if (dlq && !signal) scene_.story.violate("only what failed is filed", "{}", item.transaction_id);
    // Up to the head everything named is done, and messages in between too; behind it what is filed without a
    // gap.
    goes_on = goes_on && success && (!signal || dlq) && (!signalled || (dlq && offsets[i] == settled + 1));
    signalled = signalled || signal;
    if (goes_on) settled = offsets[i];
  }
  if (settled >= claim.first) scene_.cursors.acked(claim, settled, said.before_us, said.after_us);
}

Task<void> Letters::nurse(Client& client) {
  Dice& dice = client.dice();
  for (std::int64_t done = 0; done < plan_.replays && !scene_.quiet && !scene_.story.failed();) {
    co_await client.sleep(dice.between(kMsUs, plan_.pause_us_max * 2));
    if (ids_.empty()) continue;
    ++done;
    const Uuid id = ids_[dice.below(ids_.size())];
    if (dice.chance(70))
      co_await send_back(client, id);
    else
      co_await remove(client, id);
  }
}

Task<void> Letters::send_back(Client& client, Uuid id) {
  const PartitionName where = book_.name(id).where;
  const std::string copy = LetterBook::copy_id(id);
  const bool known = book_.is_known(id);
  Batches batches;
  batches.emplace_back(where, std::vector{copy});
  machine::DeadLetterReplayCommand body;
  body.queue = plan_.queue;
  body.dlq_id = id;
  body.copy = push_command(scene_, client, batches);
  scene_.ledger.sending(where, copy);
  book_.sending_back(id);
  ++scene_.calls;
  const auto said =
      co_await submit<machine::DeadLetterReplayOutcome>(client, std::move(body), kCallTimeoutUs);
  if (!said || !said->code.empty()) co_return;
  ++scene_.answers;
  const auto& outcome = said->outcome;
  client.story().note("client", "{} sends {} back: {}", client.end(), id.str(),
                      static_cast<int>(outcome.verdict));
  if (outcome.verdict == Verdict::gone) book_.gone(id, known);
  if (outcome.verdict == Verdict::moved) book_.sent_back(id);
  if (outcome.verdict == Verdict::duplicate)  // the copy and the letter are never both there
    scene_.story.violate("sent back or kept", "dead letter {} repeats its copy", id.str());
  if (outcome.verdict == Verdict::moved)
    scene_.ledger.stored(where, copy, outcome.offset, said->before_us, said->after_us);
}

Task<void> Letters::remove(Client& client, Uuid id) {
  const bool known = book_.is_known(id);
  machine::DeadLetterDeleteCommand body;
  body.queue = plan_.queue;
  body.ids.push_back(id);
  book_.deleting(id);
  ++scene_.calls;
  const auto said =
      co_await submit<machine::DeadLetterDeleteOutcome>(client, std::move(body), kCallTimeoutUs);
  if (!said || !said->code.empty()) co_return;
  ++scene_.answers;
  client.story().note("client", "{} deletes {}: {}", client.end(), id.str(), said->outcome.removed);
  book_.deleted(id, said->outcome.removed > 0, known);
}

Task<void> Letters::move(Client& client) {
  Dice& dice = client.dice();
  for (std::int64_t i = 0; i < plan_.seeks && !scene_.quiet && !scene_.story.failed(); ++i) {
    co_await client.sleep(dice.between(kMsUs, 4 * plan_.pause_us_max));
    if (!scene_.node.up()) continue;
    const std::int64_t now = scene_.node.safe_time_us();
    const auto since = dice.chance(30)
                           ? std::nullopt
                           : std::optional(dice.chance(50) ? 0 : now - dice.between(0, kSecondUs));
    co_await seek(client, group_name(dice.between(0, plan_.groups - 1)), since);
  }
}

Task<bool> Letters::seek(Client& client, std::string group, std::optional<std::int64_t> since_us) {
  machine::SeekCommand body;
  body.queue = plan_.queue;
  body.group = group;
  body.since_us = since_us;
  scene_.cursors.moving(plan_.queue, group);
  ++scene_.calls;
  const auto said = co_await submit<machine::SeekOutcome>(client, std::move(body), kCallTimeoutUs);
  if (!said) co_return false;
  ++scene_.answers;
  client.story().note("client", "{} seeks {} to {}: {} partitions{}", client.end(), group,
                      since_us.value_or(-1), said->outcome.partitions, said->code);
  if (said->code.empty())
    scene_.cursors.moved(plan_.queue, group, said->after_us);
  else
    scene_.cursors.not_moved(plan_.queue, group);
  co_return said->code.empty();
}

void Letters::drain() {
  for (std::int64_t i = 0; i < plan_.groups; ++i) {
    clients_.push_back(scene_.new_client());
    tasks_.start(drain_group(*clients_.back(), group_name(i)));
  }
}

// A group that was moved is set back first, so that all of the log comes again.
Task<void> Letters::drain_group(Client& client, std::string group) {
  if (plan_.seeks > 0) {
    while (!co_await seek(client, group, 0) && !scene_.story.failed()) co_await client.sleep(100 * kMsUs);
    scene_.cursors.deliver_again(plan_.queue, group);
  }
  std::int64_t last = scene_.world.now_us();
  while (scene_.world.now_us() - last < kDrainQuietUs && !scene_.story.failed()) {
    machine::PopCommand body = pop_command(client, plan_.queue, group);
    body.batch = 1000;
    auto claims = co_await pop_known(scene_, client, std::move(body), false);
    if (!claims || !claims->empty()) last = scene_.world.now_us();
    for (std::size_t i = 0; claims && i < claims->size(); ++i) co_await ack(client, (*claims)[i], true);
    if (!claims || claims->empty()) co_await client.sleep(500 * kMsUs);
  }
}

void Letters::check() {
  book_.check(scene_.node, plan_.queue, scene_.ledger.logs());
  std::set<std::string> groups;
  for (std::int64_t i = 0; i < plan_.groups; ++i) groups.insert(group_name(i));
  scene_.cursors.check_all_delivered(scene_.ledger.logs(), plan_.queue, groups);
}

}  // namespace

LettersPlan draw_letters(Dice& dice, bool small, bool encrypted) {
  LettersPlan out;
  out.partitions = small ? dice.pick({1, 2}) : dice.pick({1, 3, 8});
  out.groups = dice.pick({1, 1, 2});
  out.consumers = out.groups + dice.between(0, small ? 1 : 2);
  out.encrypted = encrypted && dice.chance(60);
  out.retry_limit = dice.pick({0, 0, 1, 2});
  out.pushes = small ? dice.pick({2, 4, 7}) : dice.pick({10, 40});
  out.replays = small ? dice.pick({0, 2, 4}) : dice.pick({0, 10, 30});
  out.seeks = dice.chance(50) ? 0 : small ? dice.pick({1, 3}) : dice.pick({3, 10});
  out.pause_us_max = dice.pick({kMsUs, 50 * kMsUs, 300 * kMsUs});
  return out;
}

std::unique_ptr<Workload> make_letters(Scene& scene, LettersPlan plan) {
  return std::make_unique<Letters>(scene, std::move(plan));
}

}  // namespace queen::sim
