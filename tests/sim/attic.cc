#include "attic.h"

#include "place_book.h"
#include "traffic.h"

namespace queen::sim {
namespace {

using PopAnswered = broker::Answer<broker::PopAnswer>;
using GroupAnswered = broker::Answer<broker::GroupDeleted>;
using Mode = machine::Subscription::Mode;

constexpr const char* kTask = "old things";
constexpr std::int64_t kColdUs = 8 * kSecondUs;  // by then all that was pushed has left memory
constexpr std::int64_t kBackUsMax = 4 * kSecondUs;
constexpr std::uint32_t kAllOfIt = 1000;

// A group as its one reader uses it.
struct Reader {
  std::string group;
  bool conflates = false;
};

struct Claim {
  std::string group, partition, lease_id;
  std::uint64_t pid = 0;
  std::int64_t first = 0, last = 0;
  std::string last_id;   // of its last message
  bool settled = false;  // by an ack that was taken: another changes nothing
};

// Where a group without a cursor starts that comes with this pop (F-3).
Place start_of(const machine::PopCommand& pop, std::int64_t before_us, std::int64_t after_us) {
  if (pop.subscription.mode == Mode::all) return AtOffset{0};
  if (pop.subscription.mode == Mode::timestamp) return SinceStamp{pop.subscription.from_us};
  return AtMoment{before_us, after_us};
}

class Attic final : public Workload {
 public:
  Attic(Scene& scene, AtticPlan plan)
      : scene_(scene), plan_(std::move(plan)), tasks_(scene.clients.lane), book_(scene.story, plan_.queue) {}

  std::string_view name() const override { return "attic"; }
  void start() override;
  bool ended() const override { return tasks_.ended(); }
  void drain() override;
  void check() override { book_.check(scene_.ledger.logs(), scene_.node); }

 private:
  Task<void> run();
  Task<void> produce(Client& client);
  Task<bool> push_one(Client& client, std::string partition);
  Task<void> read(Client& client, bool last);
  // Each of these: false when its outcome is not known.
  Task<bool> step(Client& client, Reader& reader);
  Task<bool> pop(Client& client, Reader& reader, std::uint32_t batch);
  Task<bool> ack(Client& client, Reader& reader, Claim claim);
  Task<bool> seek(Client& client, Reader& reader);
  Task<bool> place(Client& client, Reader& reader);
  Task<bool> subscribe(Client& client, Reader& reader);
  Task<bool> forget(Client& client, Reader& reader);
  machine::PopCommand draw_pop(Client& client, const Reader& reader, std::uint32_t batch);
  Claim note(const Reader& reader, const machine::PopCommand& sent, const broker::PopPart& part,
             std::int64_t after_us);
  Reader new_reader(Dice& dice) { return {fmt::format("reader{}", ++groups_), dice.chance(20)}; }
  std::string draw_partition(Dice& dice) const {
    return fmt::format("p{}", dice.below(static_cast<std::uint64_t>(plan_.partitions)));
  }
  // Not in the future of the log.
  std::int64_t draw_stamp(Dice& dice) const {
    const std::int64_t now = scene_.node.up() ? scene_.node.safe_time_us() : 0;
    return dice.chance(15) ? 0 : now - dice.between(0, kBackUsMax);
  }

  Scene& scene_;
  AtticPlan plan_;
  Tasks tasks_;
  PlaceBook book_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Claim> old_;  // acked before
  std::uint64_t numbers_ = 0, groups_ = 0;
};

void Attic::start() {
  clients_.push_back(scene_.new_client());
  tasks_.start(run());
}

// Every partition is there before anybody reads.
Task<void> Attic::run() {
  Client& admin = *clients_.front();
  machine::ConfigureCommand body;
  body.queue = plan_.queue;
  body.queue_uuid = admin.uuid();
  body.integers = {{"dedupWindowSeconds", 1},
                   {"delayedProcessing", plan_.delay_seconds},
                   {"windowBuffer", plan_.window_seconds},
                   {"windowBufferMaxSeconds", 2 * plan_.window_seconds}};
  body.texts["namespace"] = "sim";
  body.texts["task"] = kTask;
  co_await configure(admin, body);
  scene_.ledger.set_rules(plan_.queue, {0, true});
  for (std::int64_t i = 0; i < plan_.partitions; ++i) {
    const std::string partition = fmt::format("p{}", i);
    while (!co_await push_one(admin, partition)) co_await admin.sleep(200 * kMsUs);
  }
  const auto add = [&]() -> Client& { return *clients_.emplace_back(scene_.new_client()); };
  tasks_.start(produce(add()));
  for (std::int64_t i = 0; i < plan_.readers; ++i) tasks_.start(read(add(), false));
}

// Under an id of its own: a repeat would be a message of its own, so long after.
Task<bool> Attic::push_one(Client& client, std::string partition) {
  std::vector<std::string> ids;
  for (std::int64_t count = client.dice().pick({1, 1, 3}); count > 0; --count)
    ids.push_back(fmt::format("{}/{}/{}", plan_.queue, partition, ++numbers_));
  Batches batches;
  batches.emplace_back(PartitionName{plan_.queue, partition}, std::move(ids));
  const bool pushed = co_await push_known(scene_, client, std::move(batches), Persist::one_try);
  co_return pushed;
}

Task<void> Attic::produce(Client& client) {
  for (std::int64_t i = 0; i < plan_.pushes && !scene_.quiet; ++i) {
    co_await push_one(client, draw_partition(client.dice()));
    co_await client.sleep(client.dice().between(0, plan_.pause_us_max));
  }
}

// What was not answered may yet take place: the reader goes on as another group.
Task<void> Attic::read(Client& client, bool last) {
  Reader reader = new_reader(client.dice());
  for (std::int64_t i = 0; i < plan_.calls && (last || !scene_.quiet) && !scene_.story.failed(); ++i) {
    const bool known = co_await step(client, reader);
    if (!known) {
      book_.lost(reader.group);
      reader = new_reader(client.dice());
    }
    co_await client.sleep(client.dice().between(0, plan_.pause_us_max));
  }
}

Task<bool> Attic::step(Client& client, Reader& reader) {
  ++scene_.calls;
  const std::uint64_t mood = client.dice().below(16);
  if (mood == 0) co_return co_await forget(client, reader);
  if (mood == 1) co_return co_await subscribe(client, reader);
  if (mood <= 3 && !reader.conflates) co_return co_await place(client, reader);
  if (mood <= 6) co_return co_await seek(client, reader);
  if (mood == 7 && !old_.empty()) {  // a repeat, long after
    const Claim claim = old_[client.dice().below(old_.size())];
    if (claim.group == reader.group) co_return co_await ack(client, reader, claim);
  }
  const auto batch = client.dice().pick<std::uint32_t>({1, 2, 5, kAllOfIt});
  co_return co_await pop(client, reader, batch);
}

machine::PopCommand Attic::draw_pop(Client& client, const Reader& reader, std::uint32_t batch) {
  Dice& dice = client.dice();
  machine::PopCommand body = pop_command(client, plan_.queue, reader.group);
  body.batch = batch;
  body.lease_seconds = 1;
  body.conflation = reader.conflates;
  body.subscription.mode = dice.pick({Mode::all, Mode::all, Mode::fresh, Mode::timestamp});
  if (body.subscription.mode == Mode::timestamp) body.subscription.from_us = draw_stamp(dice);
  body.autopilot_batch = dice.chance(20);
  body.autopilot_partitions = dice.chance(20);
  if (!reader.conflates && dice.chance(15)) {
    body.partition = draw_partition(dice);
    body.partitions_max = 1;
  } else if (dice.chance(15)) {
    body.queue.clear();
    body.labels = machine::PopLabels{"sim", kTask};
  }
  body.commit_on_delivery = !reader.conflates && dice.chance(10);
  return body;
}

// What was given is in the book, and none of it too soon.
Claim Attic::note(const Reader& reader, const machine::PopCommand& sent, const broker::PopPart& part,
                  std::int64_t after_us) {
  Claim claim{reader.group,
              part.claim.partition,
              sent.lease_id.str(),
              part.claim.pid.value,
              static_cast<std::int64_t>(part.claim.first),
              static_cast<std::int64_t>(part.claim.last),
              {},
              false};
  for (const auto& message : part.messages.messages) {
    claim.last_id = message.transaction_id;
    scene_.ledger.seen({plan_.queue, claim.partition},
                       {message.offset, message.ts_us, claim.last_id, std::string(message.payload)});
    if (message.ts_us + plan_.delay_seconds * kSecondUs > after_us)
      scene_.story.violate("delayed messages are not given before", "{} stamped {}, given by {}",
                           claim.last_id, message.ts_us, after_us);
  }
  scene_.story.note("client", "group {} given {}/{} {}..{}", reader.group, plan_.queue, claim.partition,
                    claim.first, claim.last);
  book_.given(reader.group, claim.partition, claim.first);
  const std::int64_t read = part.messages.messages.empty()
                                ? claim.first - 1
                                : static_cast<std::int64_t>(part.messages.messages.back().offset);
  if (read != claim.last)
    scene_.story.violate("claims can be read", "{}/{} {}..{}: read to {}", plan_.queue, claim.partition,
                         claim.first, claim.last, read);
  if (sent.commit_on_delivery) book_.placed(reader.group, claim.partition, AtOffset{claim.last + 1});
  return claim;
}

Task<bool> Attic::pop(Client& client, Reader& reader, std::uint32_t batch) {
  const machine::PopCommand body = draw_pop(client, reader, batch);
  const machine::Command command = command_of(client, body);
  Client::Start<PopAnswered> start = [command](broker::Broker& broker,
                                               UniqueFunction<void(PopAnswered)> done) {
    broker.pop(command, false, 0, std::move(done));
  };
  const auto reply = co_await client.call<PopAnswered>(std::move(start), kCallTimeoutUs);
  if (!reply) co_return false;
  if (!reply->value) co_return changed_nothing(reply->value.error().code);
  ++scene_.answers;
  const auto& parts = reply->value->parts;
  book_.contact(reader.group, body.partition, start_of(body, reply->before_us, reply->after_us),
                !parts.empty());
  std::vector<Claim> claims;
  for (const auto& part : parts) claims.push_back(note(reader, body, part, reply->after_us));
  bool known = true;
  for (const Claim& claim : claims) {
    if (body.commit_on_delivery || client.dice().chance(20)) continue;
    known = co_await ack(client, reader, claim) && known;
  }
  co_return known;
}

Task<bool> Attic::ack(Client& client, Reader& reader, Claim claim) {
  machine::AckCommand body;
  body.group = reader.group;
  machine::AckItem item;
  item.partition_id = std::to_string(claim.pid);
  item.lease_id = claim.lease_id;
  item.transaction_id = claim.last_id;
  item.hash = xxh3_128(claim.last_id);
  item.dlq_id = client.uuid();
  body.items.push_back(std::move(item));
  const auto said = co_await submit<machine::AckOutcome>(client, std::move(body), kCallTimeoutUs, true);
  if (!said) co_return false;
  ++scene_.answers;
  if (!said->code.empty() || said->outcome.items.empty()) co_return true;
  const auto& answer = said->outcome.items.front();
  if (!answer.success || answer.noop || claim.settled) co_return true;
  book_.placed(reader.group, claim.partition, AtOffset{claim.last + 1});
  claim.settled = true;
  old_.push_back(claim);
  co_return true;
}

Task<bool> Attic::seek(Client& client, Reader& reader) {
  Dice& dice = client.dice();
  machine::SeekCommand body;
  body.queue = plan_.queue;
  body.group = reader.group;
  if (!dice.chance(20)) body.since_us = draw_stamp(dice);
  if (dice.chance(40)) body.partition = draw_partition(dice);
  const machine::SeekCommand sent = body;
  const auto said = co_await submit<machine::SeekOutcome>(client, std::move(body), kCallTimeoutUs);
  if (!said) co_return false;
  ++scene_.answers;
  if (!said->code.empty()) co_return changed_nothing(said->code);
  client.story().note("client", "group {} seeks {} in {}", reader.group, sent.since_us.value_or(-1),
                      sent.partition.value_or("all"));
  const std::int64_t moved = sent.partition ? 1 : plan_.partitions;
  if (!said->outcome.found || said->outcome.partitions != moved)
    scene_.story.violate("a seek moves what it names", "{} of {} partitions", said->outcome.partitions,
                         moved);
  const Place to =
      sent.since_us ? Place(SinceStamp{*sent.since_us}) : Place(AtMoment{said->before_us, said->after_us});
  for (std::int64_t i = 0; i < plan_.partitions; ++i)
    if (const std::string partition = fmt::format("p{}", i); partition == sent.partition.value_or(partition))
      book_.placed(reader.group, partition, to);
  co_return true;
}

// By offset, or nowhere.
Task<bool> Attic::place(Client& client, Reader& reader) {
  Dice& dice = client.dice();
  machine::Position position;
  position.queue = plan_.queue;
  position.partition = draw_partition(dice);
  position.group = reader.group;
  position.subscription.mode = Mode::all;
  position.metadata = "m";
  if (dice.chance(70)) position.offset = dice.between(0, 2);
  machine::TransactionCommand body;
  body.positions.push_back(position);
  const auto said =
      co_await submit<machine::TransactionOutcome>(client, std::move(body), kCallTimeoutUs, true);
  if (!said) co_return false;
  ++scene_.answers;
  if (!said->code.empty() || !said->outcome.reason.empty()) co_return changed_nothing(said->code);
  client.story().note("client", "group {} is at {} of {}", reader.group, position.offset.value_or(-1),
                      position.partition);
  if (!position.offset) {
    book_.forgotten(reader.group, position.partition);
    co_return true;
  }
  book_.registered(reader.group, AtOffset{0});
  book_.placed(reader.group, position.partition, AtOffset{*position.offset});
  co_return true;
}

Task<bool> Attic::subscribe(Client& client, Reader& reader) {
  machine::SubscribeCommand body;
  body.group = reader.group;
  body.from_us = draw_stamp(client.dice());
  const std::int64_t from = body.from_us;
  const auto said = co_await submit<machine::SubscribeOutcome>(client, std::move(body), kCallTimeoutUs);
  if (!said) co_return false;
  ++scene_.answers;
  if (!said->code.empty()) co_return changed_nothing(said->code);
  const std::uint32_t rows = book_.is_registered(reader.group) ? 1 : 0;
  if (said->outcome.rows != rows)
    scene_.story.violate("a policy is for what is registered", "{}: {} registrations", reader.group,
                         said->outcome.rows);
  book_.subscribed(reader.group, from);
  co_return true;
}

Task<bool> Attic::forget(Client& client, Reader& reader) {
  broker::GroupDeletion deletion;
  deletion.group = reader.group;
  if (client.dice().chance(50)) deletion.queue = plan_.queue;
  deletion.keep_registration = client.dice().chance(50);
  Client::Start<GroupAnswered> start = [deletion](broker::Broker& broker,
                                                  UniqueFunction<void(GroupAnswered)> done) {
    broker.delete_group(std::string(kDefaultTenant), deletion, std::move(done));
  };
  const auto reply = co_await client.call<GroupAnswered>(std::move(start), kCallTimeoutUs);
  if (!reply || !reply->value) co_return false;  // some steps of it may have been taken
  ++scene_.answers;
  client.story().note("client", "group {} is deleted, its registration {}", reader.group,
                      deletion.keep_registration ? "stays" : "too");
  book_.deleted(reader.group, !deletion.keep_registration);
  co_return true;
}

void Attic::drain() {
  clients_.push_back(scene_.new_client());
  const auto look_back = [](Attic& attic, Client& client) -> Task<void> {
    co_await client.sleep(kColdUs);
    co_await attic.read(client, true);
  };
  tasks_.start(look_back(*this, *clients_.back()));
}

}  // namespace

AtticPlan draw_attic(Dice& dice, bool small, bool /*encrypted*/) {
  AtticPlan out;
  out.partitions = small ? dice.pick({1, 2, 3}) : dice.pick({2, 5});
  out.readers = dice.pick({1, 2});
  out.pushes = small ? dice.pick({4, 8}) : dice.pick({10, 40});
  out.calls = small ? dice.pick({6, 12}) : dice.pick({10, 30});
  out.pause_us_max = dice.pick({50 * kMsUs, 300 * kMsUs, kSecondUs});
  if (dice.chance(25)) out.delay_seconds = 1;
  if (dice.chance(25)) out.window_seconds = 1;
  return out;
}

std::unique_ptr<Workload> make_attic(Scene& scene, AtticPlan plan) {
  return std::make_unique<Attic>(scene, std::move(plan));
}

}  // namespace queen::sim
