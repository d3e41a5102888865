#include "timers.h"

#include <array>

#include "broker/timer_reads.h"
#include "timer_book.h"
#include "traffic.h"

namespace queen::sim {
namespace {

using Status = machine::TimerOpOutcome::Status;

constexpr std::int64_t kLookEveryUs = 200 * kMsUs;
constexpr std::int64_t kSettleUs =
    10 * kSecondUs;  // a node that was frozen or held its fires back is over it
constexpr std::int64_t kLateUsMax = 2 * kSecondUs;  // of a fire of a node that does nothing else
constexpr std::size_t kPageMax = 1000;

class Timers final : public Workload {
 public:
  Timers(Scene& scene, TimersPlan plan)
      : scene_(scene), plan_(std::move(plan)), tasks_(scene.clients.lane), book_(scene.story) {}

  std::string_view name() const override { return "timers"; }
  void start() override;
  bool ended() const override { return tasks_.ended(); }
  void drain() override;
  void check() override { book_.check(scene_.ledger.logs()); }

 private:
  // One operation, with what the outcome does not repeat.
  struct Asked {
    TimerName name;
    machine::TimerOp op;
  };

  Task<void> run();
  Task<void> use(Client& client);
  Task<void> wait_for_all(Client& client);
  std::vector<Asked> draw_call(Client& client);
  machine::TimerOp draw_op(Client& client, const TimerQueuePlan& queue);
  void note(Client& client, const std::vector<Asked>& asked, const Said<machine::TimersOutcome>& said);
  void note_one(Client& client, const Asked& asked, const machine::TimerOpOutcome& outcome, CallTimes times);
  // How many are pending; one that should have fired long ago is a violation once `settled`.
  std::size_t pending(bool settled);

  Scene& scene_;
  TimersPlan plan_;
  Tasks tasks_;
  TimerBook book_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::uint64_t ids_ = 0;
};

void Timers::start() {
  clients_.push_back(scene_.new_client());
  tasks_.start(run());
}

Task<void> Timers::run() {
  Client& admin = *clients_.front();
  for (const auto& queue : plan_.queues) {
    scene_.ledger.set_rules(queue.name, {0, queue.configured, queue.encrypted});
    if (!queue.configured) continue;
    machine::ConfigureCommand body;
    body.queue = queue.name;
    body.queue_uuid = admin.uuid();
    body.integers = {{"encryptionEnabled", queue.encrypted}};
    co_await configure(admin, body);
  }
  for (std::int64_t i = 0; i < plan_.clients; ++i) {
    clients_.push_back(scene_.new_client());
    tasks_.start(use(*clients_.back()));
  }
}

machine::TimerOp Timers::draw_op(Client& client, const TimerQueuePlan& queue) {
  Dice& dice = client.dice();
  machine::TimerOp op;
  op.queue = queue.name;
  op.key = fmt::format("k/{}", dice.below(static_cast<std::uint64_t>(plan_.keys)));
  if (dice.chance(35)) {
    op.kind = machine::TimerOp::Kind::cancel;
    return op;
  }
  op.partition = fmt::format("p{}", dice.below(static_cast<std::uint64_t>(queue.partitions)));
  op.transaction_id = fmt::format("{}/{}/t{}-{}", queue.name, op.partition, client.end(), ++ids_);
  op.delay_us = dice.pick<std::int64_t>({-kSecondUs, 0, 1, 50 * kMsUs, dice.between(0, plan_.delay_us_max),
                                         dice.between(0, plan_.delay_us_max)});
  op.message_id = client.uuid();
  op.payload = sealed_text(client, payload_of(op.transaction_id), queue.encrypted ? scene_.cipher : nullptr);
  op.encrypted = queue.encrypted;
  return op;
}

// Operations on distinct timers.
std::vector<Timers::Asked> Timers::draw_call(Client& client) {
  std::map<TimerName, machine::TimerOp> ops;
  for (std::int64_t count = client.dice().pick({1, 1, 2, 4}); count > 0; --count) {
    auto op = draw_op(client, plan_.queues[client.dice().below(plan_.queues.size())]);
    ops.try_emplace({op.queue, op.key}, op);
  }
  std::vector<Asked> asked;
  for (auto& [name, op] : ops) asked.push_back({name, std::move(op)});
  return asked;
}

Task<void> Timers::use(Client& client) {
  for (std::int64_t i = 0; i < plan_.calls && !scene_.quiet; ++i) {
    const std::vector<Asked> asked = draw_call(client);
    machine::TimersCommand body;
    for (const auto& [name, op] : asked) {
      const bool schedules = op.kind == machine::TimerOp::Kind::schedule;
      if (schedules) scene_.ledger.sending({name.queue, op.partition}, op.transaction_id);
      book_.sending(name, op.transaction_id);
      body.ops.push_back(op);
    }
    ++scene_.calls;
    const auto said = co_await submit<machine::TimersOutcome>(client, std::move(body), kCallTimeoutUs);
    if (said) note(client, asked, *said);
    co_await client.sleep(client.dice().between(0, plan_.pause_us_max));
  }
}

void Timers::note(Client& client, const std::vector<Asked>& asked, const Said<machine::TimersOutcome>& said) {
  ++scene_.answers;
  if (!said.code.empty()) {
    client.story().note("client", "{} timers refused: {}", client.end(), said.code);
    for (const auto& [name, op] : asked) book_.refused(name, op.transaction_id);
    return;
  }
  for (std::size_t i = 0; i < asked.size(); ++i)
    note_one(client, asked[i], said.outcome.ops.at(i), {said.before_us, said.after_us});
}

void Timers::note_one(Client& client, const Asked& asked, const machine::TimerOpOutcome& outcome,
                      CallTimes times) {
  const auto& [name, op] = asked;
  constexpr std::array kNames = {"scheduled", "rescheduled", "cancelled", "absent"};
  client.story().note("client", "{} timer {}/{} {} {} for {} in ({}, {}]", client.end(), name.queue, name.key,
                      kNames.at(static_cast<std::size_t>(outcome.status)), outcome.transaction_id,
                      outcome.deliver_at, times.before_us, times.after_us);
  const bool schedules = op.kind == machine::TimerOp::Kind::schedule;
  const bool answers_schedule = outcome.status == Status::scheduled || outcome.status == Status::rescheduled;
  if (schedules != answers_schedule)
    return scene_.story.violate("timers answer what was asked", "{}/{}", name.queue, name.key);
  if (outcome.status == Status::absent) return book_.absent(name, times);
  if (outcome.status == Status::cancelled) return book_.cancelled(name, outcome.transaction_id, times);
  if (outcome.transaction_id != op.transaction_id || outcome.message_id != op.message_id)
    scene_.story.violate("timers answer what was asked", "{}/{} {}", name.queue, name.key, op.transaction_id);
  book_.scheduled(name,
                  {op.transaction_id, op.partition, outcome.deliver_at - op.delay_us, outcome.deliver_at,
                   outcome.status == Status::rescheduled},
                  times);
}

void Timers::drain() {
  clients_.push_back(scene_.new_client());
  tasks_.start(wait_for_all(*clients_.back()));
}

Task<void> Timers::wait_for_all(Client& client) {
  const std::int64_t from = scene_.world.now_us();
  for (;;) {
    const bool settled = scene_.world.now_us() - from > kSettleUs;
    if (scene_.story.failed() || (scene_.node.up() && pending(settled) == 0)) co_return;
    co_await client.sleep(kLookEveryUs);
  }
}

std::size_t Timers::pending(bool settled) {
  const broker::TimerReads reads(scene_.node.broker().state());
  const std::int64_t wall = scene_.node.calls().clock().wall_us();
  std::size_t count = 0;
  for (const auto& queue : plan_.queues) {
    for (const auto& timer : reads.page(kDefaultTenant, queue.name, {}, kPageMax).timers) {
      ++count;
      if (settled && timer.row.due() + kLateUsMax < wall)
        scene_.story.violate("timers fire in time", "{}/{} {} was due {} us ago", queue.name, timer.key,
                             timer.row.transaction_id, wall - timer.row.due());
    }
  }
  return count;
}

}  // namespace

TimersPlan draw_timers(Dice& dice, bool small, bool encrypted) {
  TimersPlan out;
  const std::int64_t queues = small ? dice.pick({1, 1, 2}) : dice.between(1, 3);
  for (std::int64_t i = 0; i < queues; ++i) {
    TimerQueuePlan queue;
    queue.name = fmt::format("timed{}", i);
    queue.partitions = small ? dice.pick({1, 2}) : dice.pick({1, 3, 8});
    queue.encrypted = encrypted && dice.chance(60);
    queue.configured = queue.encrypted || dice.chance(60);
    out.queues.push_back(queue);
  }
  out.clients = small ? dice.pick({1, 2}) : dice.between(1, 4);
  out.calls = small ? dice.pick({2, 5, 9}) : dice.pick({10, 30, 80});
  out.keys = dice.pick({1, 3, 10});
  out.pause_us_max = dice.pick({kMsUs, 50 * kMsUs, 400 * kMsUs});
  out.delay_us_max = dice.pick({100 * kMsUs, kSecondUs, 4 * kSecondUs});
  return out;
}

std::unique_ptr<Workload> make_timers(Scene& scene, TimersPlan plan) {
  return std::make_unique<Timers>(scene, std::move(plan));
}

}  // namespace queen::sim
