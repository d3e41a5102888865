#include "transactions.h"

#include <algorithm>
#include <charconv>

#include "broker/kv_reads.h"
#include "broker/timer_reads.h"
#include "traffic.h"

namespace queen::sim {
namespace {

constexpr std::string_view kMarkers = "tx-done", kCounters = "tx-count", kGhosts = "tx-ghost";
constexpr std::string_view kGroup = "workers";
constexpr std::int64_t kLookEveryUs = 300 * kMsUs;
constexpr int kTriesMax = 3;
constexpr std::uint32_t kRowsMax = 100'000;

// What a transaction is made to fail by.
enum class Poison : std::uint8_t { none, lost_check, repeated_push };
// Unknown: it may take place yet, as a whole.
enum class Fate : std::uint8_t { unknown, took_place, refused };

struct Part {
  ClaimSeen claim;
  std::int64_t to = 0;  // the claim's messages up to here are worked on
  bool ends() const { return to == claim.last; }
};
struct Legs {
  std::string id;
  std::vector<Part> parts;
  Batches pushes;                                           // one message for each that is worked on
  std::string timer_queue, timer_partition, timer_message;  // empty: none
  std::int64_t timer_delay_us = 0;
  Poison poison = Poison::none;
  Fate fate = Fate::unknown;
};

class Transactions final : public Workload {
 public:
  Transactions(Scene& scene, TransactionsPlan plan)
      : scene_(scene), plan_(std::move(plan)), tasks_(scene.clients.lane) {}

  std::string_view name() const override { return "transactions"; }
  void start() override;
  bool ended() const override { return tasks_.ended(); }
  void drain() override;
  void check() override;

 private:
  using Said = sim::Said<machine::TransactionOutcome>;

  Task<void> run();
  Task<void> produce(Client& client);
  Task<void> work(Client& client, bool drains);
  Task<void> work_on(Client& client, std::vector<ClaimSeen> claims, bool drains);
  Task<void> commit(Client& client, Legs& legs);
  Legs& draw_legs(Client& client, std::vector<ClaimSeen>& claims, bool drains);
  void draw_timer(Client& client, Legs& legs);
  void poison(Client& client, Legs& legs);
  machine::TransactionCommand command_for(Client& client, const Legs& legs);
  std::vector<machine::AckCommand> acks_of(Client& client, const Legs& legs);
  machine::KvCommand kv_of(const Legs& legs) const;
  void note(Client& client, Legs& legs, const std::optional<Said>& said, bool unsure);
  void note_done(Legs& legs, const Said& said);
  std::size_t pending() const;
  void check_legs(const Legs& legs, const std::set<std::string, std::less<>>& markers);
  void check_counters();
  void check_sources();
  std::map<std::string, std::string> rows(std::string_view ns) const;
  bool in_log(const PartitionName& where, std::string_view id) const;

  Scene& scene_;
  TransactionsPlan plan_;
  Tasks tasks_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::deque<Legs> made_;
  std::vector<std::pair<PartitionName, std::string>> stored_;        // answered messages, for repeats
  std::map<PartitionName, std::set<std::string, std::less<>>> ids_;  // what the logs hold
  std::uint64_t numbers_ = 0;
};

void Transactions::start() {
  clients_.push_back(scene_.new_client());
  tasks_.start(run());
}

Task<void> Transactions::run() {
  Client& admin = *clients_.front();
  std::vector<SinkQueuePlan> queues = plan_.sinks;
  queues.push_back({plan_.source, plan_.source_partitions, false});
  for (const auto& queue : queues) {
    machine::ConfigureCommand body;
    body.queue = queue.name;
    body.queue_uuid = admin.uuid();
    body.integers = {{"encryptionEnabled", queue.encrypted}};
    co_await configure(admin, body);
    scene_.ledger.set_rules(queue.name, {0, true, queue.encrypted});
  }
  clients_.push_back(scene_.new_client());
  tasks_.start(produce(*clients_.back()));
  for (std::int64_t i = 0; i < plan_.workers; ++i) {
    clients_.push_back(scene_.new_client());
    tasks_.start(work(*clients_.back(), false));
  }
}

Task<void> Transactions::produce(Client& client) {
  Dice& dice = client.dice();
  for (std::int64_t i = 0; i < plan_.pushes && !scene_.quiet; ++i) {
    const PartitionName where{
        plan_.source, fmt::format("w{}", dice.below(static_cast<std::uint64_t>(plan_.source_partitions)))};
    std::vector<std::string> ids;
    for (std::int64_t count = dice.pick({1, 1, 3}); count > 0; --count)
      ids.push_back(fmt::format("{}/{}/{}", where.queue, where.partition, ++numbers_));
    Batches batches;
    batches.emplace_back(where, std::move(ids));
    co_await push_known(scene_, client, std::move(batches));
    co_await client.sleep(dice.between(0, plan_.pause_us_max));
  }
}

// Until the scene is quiet; one that drains until nothing came for longer than a lease.
Task<void> Transactions::work(Client& client, bool drains) {
  Drain drain(scene_.world);
  const auto goes_on = [&] {
    if (scene_.story.failed()) return false;
    return drains ? !drain.ended() || pending() > 0 : !scene_.quiet;
  };
  while (goes_on()) {
    drain.asking();
    machine::PopCommand body = pop_command(client, plan_.source, std::string(kGroup));
    body.batch = static_cast<std::uint32_t>(drains ? 20 : client.dice().pick({1, 3, 6}));
    body.partitions_max = static_cast<std::uint32_t>(client.dice().pick({1, 2, 5}));
    auto claims = co_await pop_known(scene_, client, std::move(body), !drains && client.dice().chance(40));
    if (claims) drain.told(claims->empty());
    if (claims && !claims->empty()) {
      co_await work_on(client, std::move(*claims), drains);
    } else {
      co_await client.sleep(client.dice().between(10 * kMsUs, kLookEveryUs));
    }
  }
}

Task<void> Transactions::work_on(Client& client, std::vector<ClaimSeen> claims, bool drains) {
  while (!claims.empty()) {
    if (!drains && client.dice().chance(8)) co_return;  // vanishes
    Legs& legs = draw_legs(client, claims, drains);
    co_await commit(client, legs);
    if (legs.fate != Fate::took_place) co_return;  // the rest comes again
    if (!drains) co_await client.sleep(client.dice().between(0, plan_.pause_us_max));
  }
}

// Takes what it works on out of `claims`.
Legs& Transactions::draw_legs(Client& client, std::vector<ClaimSeen>& claims, bool drains) {
  Dice& dice = client.dice();
  Legs& legs = made_.emplace_back();
  legs.id = fmt::format("x{}", ++numbers_);
  std::map<PartitionName, std::vector<std::string>> pushes;
  for (std::size_t count = dice.pick<std::size_t>({1, 1, 3}); count > 0 && !claims.empty(); --count) {
    ClaimSeen& claim = claims.back();
    const std::int64_t to = drains || dice.chance(60) ? claim.last : dice.between(claim.first, claim.last);
    legs.parts.push_back({claim, to});
    for (std::int64_t offset = claim.first; offset <= to; ++offset) {
      const auto& sink = plan_.sinks[dice.below(plan_.sinks.size())];
      const PartitionName where{sink.name,
                                fmt::format("s{}", dice.below(static_cast<std::uint64_t>(sink.partitions)))};
      pushes[where].push_back(fmt::format("{}:{}:{}", legs.id, claim.where.partition, offset));
    }
    claim.first = to + 1;
    if (claim.first > claim.last) claims.pop_back();
  }
  legs.pushes.assign(pushes.begin(), pushes.end());
  if (dice.chance(30)) draw_timer(client, legs);
  if (!drains && dice.chance(12)) poison(client, legs);
  return legs;
}

void Transactions::draw_timer(Client& client, Legs& legs) {
  Dice& dice = client.dice();
  const auto& sink = plan_.sinks[dice.below(plan_.sinks.size())];
  legs.timer_queue = sink.name;
  legs.timer_partition = fmt::format("s{}", dice.below(static_cast<std::uint64_t>(sink.partitions)));
  legs.timer_message = legs.id + "-timer";
  legs.timer_delay_us = dice.pick<std::int64_t>({0, 100 * kMsUs, kSecondUs});
}

void Transactions::poison(Client& client, Legs& legs) {
  legs.poison = stored_.empty() || client.dice().chance(50) ? Poison::lost_check : Poison::repeated_push;
  if (legs.poison == Poison::lost_check) return;
  const auto& [where, id] = stored_[client.dice().below(stored_.size())];
  for (auto& [other, ids] : legs.pushes)
    if (other == where) return ids.push_back(id);
  legs.pushes.push_back({where, {id}});
}

std::vector<machine::AckCommand> Transactions::acks_of(Client& client, const Legs& legs) {
  machine::AckCommand ack;
  ack.group = kGroup;
  for (const Part& part : legs.parts)
    ack.items.push_back(ack_item(scene_, client, part.claim, part.to, machine::AckStatus::completed));
  return {std::move(ack)};
}

machine::KvCommand Transactions::kv_of(const Legs& legs) const {
  machine::KvCommand kv;
  machine::KvOp& marker = kv.ops.emplace_back();
  marker.kind = machine::KvKind::put_if_absent;
  marker.ns = kMarkers;
  marker.key = legs.id;
  marker.value = "true";
  marker.required = true;
  std::map<std::string, std::size_t> counts;
  for (const auto& [where, ids] : legs.pushes) counts[where.queue] += ids.size();
  for (const auto& [queue, count] : counts) {
    machine::KvOp& counter = kv.ops.emplace_back();
    counter.kind = machine::KvKind::incr;
    counter.ns = kCounters;
    counter.key = queue;
    counter.delta = std::to_string(count);
  }
  if (legs.poison == Poison::lost_check) {
    machine::KvOp& check = kv.ops.emplace_back();
    check.kind = machine::KvKind::check;
    check.ns = kGhosts;
    check.key = "none";
    check.expect = 1;
    check.required = true;
  }
  return kv;
}

machine::TransactionCommand Transactions::command_for(Client& client, const Legs& legs) {
  machine::TransactionCommand body;
  body.acks = acks_of(client, legs);
  body.push = push_command(scene_, client, legs.pushes);
  body.kv = kv_of(legs);
  if (legs.timer_message.empty()) return body;
  const bool encrypted = scene_.ledger.rules(legs.timer_queue).encrypted;
  machine::TimerOp& op = body.timers.ops.emplace_back();
  op.queue = legs.timer_queue;
  op.key = legs.id;
  op.transaction_id = legs.timer_message;
  op.delay_us = legs.timer_delay_us;
  op.partition = legs.timer_partition;
  op.payload = sealed_text(client, payload_of(legs.timer_message), encrypted ? scene_.cipher : nullptr);
  op.encrypted = encrypted;
  op.message_id = client.uuid();
  return body;
}

// One that was not answered is sent again: its marker, its ids and its lease keep it from taking place twice.
Task<void> Transactions::commit(Client& client, Legs& legs) {
  for (const auto& [where, ids] : legs.pushes)
    for (const auto& id : ids) scene_.ledger.sending(where, id);
  if (!legs.timer_message.empty())
    scene_.ledger.sending({legs.timer_queue, legs.timer_partition}, legs.timer_message);
  for (const Part& part : legs.parts) scene_.cursors.acking(part.claim, part.to, part.ends());
  bool unsure = false;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    machine::TransactionCommand body = command_for(client, legs);
    ++scene_.calls;
    const auto said =
        co_await submit<machine::TransactionOutcome>(client, std::move(body), kCallTimeoutUs, true);
    note(client, legs, said, unsure);
    unsure = unsure || !said;
    if (legs.fate != Fate::unknown || (said && said->code.empty())) co_return;
    if (legs.poison != Poison::none || client.dice().chance(30)) co_return;
    co_await client.sleep(client.dice().between(0, kSecondUs));
  }
}

void Transactions::note(Client& client, Legs& legs, const std::optional<Said>& said, bool unsure) {
  if (!said) return;
  ++scene_.answers;
  const std::string& reason = said->code.empty() ? said->outcome.reason : said->code;
  client.story().note("client", "{} transaction {}: {}", client.end(), legs.id,
                      reason.empty() ? "done" : reason);
  if (reason.empty()) {
    note_done(legs, *said);
  } else if (!unsure) {
    // A full disk passes, and then the same may be tried again.
    if (!said->code.empty() && legs.poison == Poison::none) return;
    legs.fate = Fate::refused;
    for (const Part& part : legs.parts) scene_.cursors.not_acked(part.claim, part.to, part.ends());
  } else if (reason == "kv_precondition" || reason == "duplicate") {
    legs.fate = Fate::took_place;  // an earlier try did: its marker or its messages are there
  }
}

void Transactions::note_done(Legs& legs, const Said& said) {
  legs.fate = Fate::took_place;
  if (legs.poison != Poison::none)
    scene_.story.violate("what must fail takes no place", "transaction {}", legs.id);
  for (std::size_t b = 0; b < legs.pushes.size(); ++b) {
    const auto& [where, ids] = legs.pushes[b];
    for (std::size_t i = 0; i < ids.size(); ++i) {
      scene_.ledger.stored(where, ids[i], said.outcome.push.batches.at(b).items.at(i).offset, said.before_us,
                           said.after_us);
      stored_.emplace_back(where, ids[i]);
    }
  }
  for (const Part& part : legs.parts)
    scene_.cursors.acked(part.claim, part.to, said.before_us, said.after_us);
}

void Transactions::drain() {
  clients_.push_back(scene_.new_client());
  tasks_.start(work(*clients_.back(), true));
}

std::size_t Transactions::pending() const {
  if (!scene_.node.up()) return 1;
  const broker::TimerReads reads(scene_.node.broker().state());
  std::size_t count = 0;
  for (const auto& sink : plan_.sinks) count += reads.count(kDefaultTenant, sink.name, {});
  return count;
}

std::map<std::string, std::string> Transactions::rows(std::string_view ns) const {
  broker::KvListQuery query;
  query.ns = ns;
  query.limit = kRowsMax;
  const broker::KvReads reads(scene_.node.broker().state());
  std::map<std::string, std::string> out;
  for (auto& one : reads.list(std::string(kDefaultTenant), query, 0).rows)
    out.emplace(std::move(one.key), std::move(one.row.value));
  return out;
}

bool Transactions::in_log(const PartitionName& where, std::string_view id) const {
  const auto at = ids_.find(where);
  return at != ids_.end() && at->second.contains(id);
}

void Transactions::check() {
  ids_.clear();
  for (const auto& [where, log] : scene_.ledger.logs())
    for (const auto& record : log.records) ids_[where].insert(record.transaction_id);
  std::set<std::string, std::less<>> markers;
  for (const auto& [key, value] : rows(kMarkers)) markers.insert(key);
  for (const Legs& legs : made_) check_legs(legs, markers);
  check_counters();
  check_sources();
}

void Transactions::check_legs(const Legs& legs, const std::set<std::string, std::less<>>& markers) {
  const bool done = markers.contains(legs.id);
  if (legs.fate == Fate::took_place && !done)
    return scene_.story.violate("nothing answered is lost", "transaction {}", legs.id);
  if ((legs.fate == Fate::refused || legs.poison != Poison::none) && done)
    return scene_.story.violate("what is refused does not take place", "transaction {}", legs.id);
  const auto judge = [&](const PartitionName& where, const std::string& id) {
    if (in_log(where, id) != done)
      scene_.story.violate("all or nothing", "transaction {}: its key is {}, its message {} in {}/{} is {}",
                           legs.id, done ? "there" : "not there", id, where.queue, where.partition,
                           done ? "not there" : "there");
  };
  for (const auto& [where, ids] : legs.pushes)
    for (const auto& id : ids)
      if (id.starts_with(legs.id + ":")) judge(where, id);
  if (!legs.timer_message.empty()) judge({legs.timer_queue, legs.timer_partition}, legs.timer_message);
}

// Each counter is what was pushed with it.
void Transactions::check_counters() {
  const auto counters = rows(kCounters);
  for (const auto& sink : plan_.sinks) {
    std::size_t count = 0;
    for (const auto& [where, ids] : ids_)
      if (where.queue == sink.name)
        count += static_cast<std::size_t>(std::count_if(
            ids.begin(), ids.end(), [](const auto& id) { return id.find(':') != std::string::npos; }));
    const auto counter = counters.find(sink.name);
    const std::string value = counter == counters.end() ? "0" : counter->second;
    if (value != std::to_string(count))
      scene_.story.violate("all or nothing", "{} counted {}, its messages are {}", sink.name, value, count);
  }
}

// Each message of the source became one message of a sink.
void Transactions::check_sources() {
  std::map<std::string, int> made;  // by "partition:offset"
  for (const auto& sink : plan_.sinks)
    for (const auto& [where, ids] : ids_)
      if (where.queue == sink.name)
        for (const auto& id : ids)
          if (const auto colon = id.find(':'); colon != std::string::npos) ++made[id.substr(colon + 1)];
  for (const auto& [where, log] : scene_.ledger.logs()) {
    if (where.queue != plan_.source) continue;
    for (const auto& record : log.records) {
      const int times = made[fmt::format("{}:{}", where.partition, record.offset)];
      if (times != 1)
        scene_.story.violate("worked on once", "{}/{} offset {}: {} times", where.queue, where.partition,
                             record.offset, times);
    }
  }
}

}  // namespace

TransactionsPlan draw_transactions(Dice& dice, bool small, bool encrypted) {
  TransactionsPlan out;
  const std::int64_t sinks = small ? dice.pick({1, 2}) : dice.between(1, 3);
  for (std::int64_t i = 0; i < sinks; ++i)
    out.sinks.push_back({fmt::format("made{}", i), small ? dice.pick({1, 2}) : dice.pick({1, 4, 10}),
                         encrypted && dice.chance(60)});
  out.source_partitions = small ? dice.pick({1, 2}) : dice.pick({1, 3, 8});
  out.workers = small ? dice.pick({1, 2}) : dice.between(1, 4);
  out.pushes = small ? dice.pick({2, 5, 8}) : dice.pick({10, 40});
  out.pause_us_max = dice.pick({kMsUs, 50 * kMsUs, 400 * kMsUs});
  return out;
}

std::unique_ptr<Workload> make_transactions(Scene& scene, TransactionsPlan plan) {
  return std::make_unique<Transactions>(scene, std::move(plan));
}

}  // namespace queen::sim
