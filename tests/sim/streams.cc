#include "streams.h"

#include <algorithm>
#include <charconv>

#include "broker/streams_reads.h"
#include "traffic.h"

namespace queen::sim {
namespace {

using machine::StreamsCycleCommand;
using machine::StreamsCycleOutcome;
using Rows = std::optional<std::vector<broker::StreamsState>>;

constexpr const char* kName = "sums";
constexpr const char* kHash = "h1";
constexpr const char* kSum = "sum";    // how many messages of the partition went in
constexpr const char* kLast = "last";  // there while the last cycle took an odd number of them
constexpr std::int64_t kDrainQuietUs = 5 * kSecondUs;  // longer than a lease

// What a cycle is to do with a claim.
enum class Mood : std::uint8_t {
  all,     // takes it whole, and the lease ends
  part,    // takes its first messages and keeps the lease
  refuse,  // takes nothing, and the lease ends
};

class Streams final : public Workload {
 public:
  Streams(Scene& scene, StreamsPlan plan)
      : scene_(scene), plan_(std::move(plan)), tasks_(scene.clients.lane) {}

  std::string_view name() const override { return "streams"; }
  void start() override;
  bool ended() const override { return tasks_.ended(); }
  void drain() override;
  void check() override;

 private:
  Task<void> run();
  Task<void> produce(Client& client);
  Task<void> work(Client& client, bool drains);
  // Until it is answered.
  Task<void> enrol(Client& client);
  Task<void> enrol_differently(Client& client);
  Task<bool> cycle(Client& client, ClaimSeen claim, Mood mood);
  Task<std::optional<std::int64_t>> sum(Client& client, Pid pid);
  StreamsCycleCommand draw_cycle(Client& client, const ClaimSeen& claim, Mood mood, std::int64_t sum);
  void note(const ClaimSeen& claim, std::int64_t to, const Said<StreamsCycleOutcome>& said);
  void check_partition(const std::string& partition);
  PartitionName in(const std::string& partition) const { return {plan_.source, partition}; }
  PartitionName out(const std::string& partition) const { return {plan_.sink, partition}; }
  std::string made_of(const std::string& partition, std::int64_t offset) const {
    return fmt::format("{}/{}/{}", plan_.sink, partition, offset);
  }

  Scene& scene_;
  StreamsPlan plan_;
  Tasks tasks_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::optional<Uuid> query_;
  std::map<std::string, std::uint64_t> pids_;
  std::uint64_t numbers_ = 0;
};

void Streams::start() {
  clients_.push_back(scene_.new_client());
  tasks_.start(run());
}

Task<void> Streams::run() {
  Client& admin = *clients_.front();
  for (const auto& queue : {plan_.source, plan_.sink}) {
    machine::ConfigureCommand body;
    body.queue = queue;
    body.queue_uuid = admin.uuid();
    co_await configure(admin, body);
    scene_.ledger.set_rules(queue, {0, true});
  }
  const auto add = [&]() -> Client& { return *clients_.emplace_back(scene_.new_client()); };
  tasks_.start(produce(add()));
  for (std::int64_t i = 0; i < plan_.workers; ++i) tasks_.start(work(add(), false));
}

Task<void> Streams::produce(Client& client) {
  Dice& dice = client.dice();
  for (std::int64_t i = 0; i < plan_.pushes && !scene_.quiet; ++i) {
    const PartitionName where =
        in(fmt::format("p{}", dice.below(static_cast<std::uint64_t>(plan_.partitions))));
    std::vector<std::string> ids;
    for (std::int64_t count = dice.pick({1, 2, 5}); count > 0; --count)
      ids.push_back(fmt::format("{}/{}/{}", where.queue, where.partition, ++numbers_));
    Batches batches;
    batches.emplace_back(where, std::move(ids));
    co_await push_known(scene_, client, std::move(batches));
    co_await client.sleep(dice.between(0, plan_.pause_us_max));
  }
}

// The name leads to one query, whoever asks and however often.
Task<void> Streams::enrol(Client& client) {
  for (bool answered = false; !answered && !scene_.story.failed();) {
    machine::StreamsRegisterCommand body;
    body.name = kName;
    body.source = plan_.source;
    body.sink = plan_.sink;
    body.config_hash = kHash;
    body.query_id = client.uuid();
    ++scene_.calls;
    const auto said =
        co_await submit<machine::StreamsRegisterOutcome>(client, std::move(body), kCallTimeoutUs);
    answered = said && said->code.empty();
    if (!answered) {
      co_await client.sleep(client.dice().between(kMsUs, 500 * kMsUs));
      continue;
    }
    ++scene_.answers;
    const auto& outcome = said->outcome;
    if (outcome.mismatch || outcome.denied || outcome.reset || (query_ && *query_ != outcome.query_id))
      scene_.story.violate("a name leads to one query", "{} and {}", outcome.query_id.str(),
                           query_ ? query_->str() : "none");
    query_ = outcome.query_id;
  }
}

// Another configuration under the name is refused, and changes nothing.
Task<void> Streams::enrol_differently(Client& client) {
  machine::StreamsRegisterCommand body;
  body.name = kName;
  body.source = plan_.source;
  body.config_hash = "h2";
  body.query_id = client.uuid();
  ++scene_.calls;
  const auto said = co_await submit<machine::StreamsRegisterOutcome>(client, std::move(body), kCallTimeoutUs);
  if (!said || !said->code.empty()) co_return;
  ++scene_.answers;
  if (!said->outcome.mismatch)
    scene_.story.violate("a name leads to one query", "another configuration was taken");
}

Task<void> Streams::work(Client& client, bool drains) {
  Dice& dice = client.dice();
  co_await enrol(client);
  std::int64_t last = scene_.world.now_us();
  const auto goes_on = [&] {
    if (scene_.story.failed()) return false;
    return drains ? scene_.world.now_us() - last < kDrainQuietUs : !scene_.quiet;
  };
  while (goes_on()) {
    machine::PopCommand body = pop_command(client, plan_.source, plan_.group);
    body.batch = static_cast<std::uint32_t>(drains ? 1000 : dice.pick({1, 3, 10}));
    body.partitions_max = drains ? 10 : 1;
    const auto claims = co_await pop_known(scene_, client, std::move(body), !drains && dice.chance(40));
    const bool any = claims && !claims->empty();
    if (any || !claims) last = scene_.world.now_us();
    for (std::size_t i = 0; any && i < claims->size(); ++i) {
      const ClaimSeen& claim = (*claims)[i];
      if (!drains && dice.chance(8)) continue;  // vanishes
      const Mood mood = drains || dice.chance(70) ? Mood::all : dice.chance(60) ? Mood::part : Mood::refuse;
      const bool kept = co_await cycle(client, claim, mood);
      if (kept && mood == Mood::part) co_await cycle(client, claim, Mood::all);
    }
    if (!drains && dice.chance(5)) co_await enrol_differently(client);
    co_await client.sleep(dice.between(0, any ? plan_.pause_us_max : 500 * kMsUs));
  }
}

// As this node has it. Nothing: no answer.
Task<std::optional<std::int64_t>> Streams::sum(Client& client, Pid pid) {
  Client::Start<Rows> start = [query = *query_, pid](broker::Broker& broker,
                                                     UniqueFunction<void(Rows)> done) {
    const broker::StreamsReads reads(broker.state());
    done(reads.state(std::string(kDefaultTenant), query, pid, {.keys = {kSum}, .key_prefix = {}}));
  };
  const auto reply = co_await client.call<Rows>(std::move(start), kCallTimeoutUs);
  if (!reply) co_return std::nullopt;
  if (!reply->value) {
    scene_.story.violate("a query stays", "{} of partition {}", query_->str(), pid.value);
    co_return std::nullopt;
  }
  if (reply->value->empty()) co_return 0;
  const Bytes& text = reply->value->front().row.value;
  std::int64_t out = -1;
  std::from_chars(text.data(), text.data() + text.size(), out);
  co_return out;
}

StreamsCycleCommand Streams::draw_cycle(Client& client, const ClaimSeen& claim, Mood mood, std::int64_t sum) {
  StreamsCycleCommand body;
  body.query_id = *query_;
  body.pid = Pid{claim.pid};
  body.group = plan_.group;
  StreamsCycleCommand::Ack ack;
  ack.lease_id = claim.lease_id;
  ack.completed = mood != Mood::refuse;
  body.release_lease = mood != Mood::part;
  if (mood != Mood::refuse) {
    // What was taken of this lease before is in the sum.
    const std::int64_t end = mood == Mood::all ? claim.last + 1 : sum + (claim.last + 1 - sum + 1) / 2;
    ack.count = end - sum;
    std::vector<std::string> made;
    for (std::int64_t offset = sum; offset < end; ++offset)
      made.push_back(made_of(claim.where.partition, offset));
    for (const auto& id : made) scene_.ledger.sending(out(claim.where.partition), id);
    if (!made.empty())
      body.push.batches.push_back(batch_of(client, out(claim.where.partition), made, nullptr));
    body.state.push_back({kSum, std::to_string(end)});
    body.state.push_back({kLast, ack.count % 2 == 1 ? std::optional<std::string>("1") : std::nullopt});
  }
  body.ack = ack;
  return body;
}

// True: it took place.
Task<bool> Streams::cycle(Client& client, ClaimSeen claim, Mood mood) {
  const Pid pid{claim.pid};
  pids_[claim.where.partition] = claim.pid;
  const auto before = co_await sum(client, pid);
  // Somebody else went on meanwhile: the lease is over.
  if (!before || *before < claim.first || *before > claim.last) co_return false;
  co_await client.sleep(client.dice().between(0, plan_.pause_us_max));
  StreamsCycleCommand body = draw_cycle(client, claim, mood, *before);
  const std::int64_t to = mood == Mood::refuse ? *before - 1 : *before + body.ack->count - 1;
  const bool ends = mood != Mood::part || to == claim.last;
  scene_.cursors.acking(claim, to, ends);
  ++scene_.calls;
  const auto said = co_await submit<StreamsCycleOutcome>(client, std::move(body), kCallTimeoutUs);
  if (!said) co_return false;
  ++scene_.answers;
  const bool taken = said->code.empty() && said->outcome.found && said->outcome.reason.empty();
  client.story().note("client", "{} cycle of {}/{} to {}: {}", client.end(), claim.where.queue,
                      claim.where.partition, to, taken ? "taken" : said->code + said->outcome.reason);
  if (said->code.empty() && !said->outcome.found)
    scene_.story.violate("a query stays", "{}/{}", claim.where.queue, claim.where.partition);
  if (taken && mood != Mood::refuse) note(claim, to, *said);
  if (!taken) scene_.cursors.not_acked(claim, to, ends);
  co_return taken;
}

void Streams::note(const ClaimSeen& claim, std::int64_t to, const Said<StreamsCycleOutcome>& said) {
  scene_.cursors.acked(claim, to, said.before_us, said.after_us);
  for (const auto& batch : said.outcome.push.batches) {
    const std::int64_t first = to + 1 - static_cast<std::int64_t>(batch.items.size());
    for (std::size_t i = 0; i < batch.items.size(); ++i)
      scene_.ledger.stored(out(claim.where.partition),
                           made_of(claim.where.partition, first + static_cast<std::int64_t>(i)),
                           batch.items[i].offset, said.before_us, said.after_us);
  }
}

void Streams::drain() {
  clients_.push_back(scene_.new_client());
  tasks_.start(work(*clients_.back(), true));
}

void Streams::check() {
  for (const auto& [partition, pid] : pids_) {
    if (scene_.story.failed()) return;
    check_partition(partition);
  }
  scene_.cursors.check_all_delivered(scene_.ledger.logs(), plan_.source, {plan_.group});
}

// Each message went in once: the sum says how many, and what was made of them is there, in their order.
void Streams::check_partition(const std::string& partition) {
  const broker::StreamsReads reads(scene_.node.broker().state());
  const auto rows = reads.state(std::string(kDefaultTenant), *query_, Pid{pids_[partition]}, {});
  if (!rows) return scene_.story.violate("a query stays", "partition {}", partition);
  const auto& logs = scene_.ledger.logs();
  const std::size_t read = logs.at(in(partition)).records.size();
  const auto made = logs.find(out(partition));
  const std::size_t count = made == logs.end() ? 0 : made->second.records.size();
  const auto sum = std::find_if(rows->begin(), rows->end(), [](const auto& row) { return row.key == kSum; });
  const std::string said = sum == rows->end() ? "0" : sum->row.value;
  if (count != read || said != std::to_string(read))
    return scene_.story.violate("cycles take place as a whole", "{}: {} messages, {} made of them, sum {}",
                                partition, read, count, said);
  for (std::size_t i = 0; i < count; ++i)
    if (const auto& id = made->second.records[i].transaction_id;
        id != made_of(partition, static_cast<std::int64_t>(i)))
      return scene_.story.violate("cycles take place in order", "{}: {} at offset {}", partition, id, i);
}

}  // namespace

StreamsPlan draw_streams(Dice& dice, bool small, bool /*encrypted*/) {
  StreamsPlan out;
  out.partitions = small ? dice.pick({1, 2}) : dice.pick({1, 3, 6});
  out.workers = dice.pick({1, 2, 3});
  out.pushes = small ? dice.pick({2, 4, 7}) : dice.pick({10, 30});
  out.pause_us_max = dice.pick({kMsUs, 50 * kMsUs, 300 * kMsUs});
  return out;
}

std::unique_ptr<Workload> make_streams(Scene& scene, StreamsPlan plan) {
  return std::make_unique<Streams>(scene, std::move(plan));
}

}  // namespace queen::sim
