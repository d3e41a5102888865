#include "locks.h"

#include <charconv>

#include "api/detail/locks.h"
#include "lock_book.h"
#include "log_time.h"
#include "traffic.h"

namespace queen::sim {
namespace {

using Wants = api::LockStep::Wants;

constexpr const char* kGuarded = "guarded";

struct LockAnswer {
  bool success = false, already = false;
  std::uint32_t slot = 0;
  std::uint64_t token = 0;
  LockBook::Times times;  // log times of its last call
};
struct Handle {
  Permit permit;
  std::string owner;
  std::uint64_t token = 0;
  LockBook::HoldId hold = 0;
};

std::uint64_t number_in(std::string_view json, std::string_view name) {
  const auto at = json.find(name);
  std::uint64_t value = 0;
  if (at != std::string_view::npos)
    std::from_chars(json.data() + at + name.size(), json.data() + json.size(), value);
  return value;
}

class Locks final : public Workload {
 public:
  Locks(Scene& scene, LocksPlan plan)
      : scene_(scene),
        plan_(std::move(plan)),
        tasks_(scene.clients.lane),
        time_(scene.node, scene.world),
        book_(scene.story) {}

  std::string_view name() const override { return "locks"; }
  void start() override;
  bool ended() const override { return tasks_.ended(); }
  void check() override;

 private:
  Task<void> use(Client& client);
  Task<void> hold(Client& client, Handle handle);
  // Nothing: it is not known what came of it.
  Task<std::optional<LockAnswer>> run(Client& client, api::LockOp op);
  // `dead_from_us`: by that log time its token was surely no longer the permit's.
  Task<void> work(Client& client, Handle handle, std::int64_t dead_from_us = INT64_MAX);
  // False: the handle is lost, or nobody knows.
  Task<bool> renew(Client& client, Handle& handle);
  // The log time by which it was surely released; INT64_MAX when nobody knows.
  Task<std::int64_t> release(Client& client, Handle handle);

  Scene& scene_;
  LocksPlan plan_;
  Tasks tasks_;
  LogTime time_;
  LockBook book_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::uint64_t ids_ = 0;
};

void Locks::start() {
  scene_.ledger.set_rules(kGuarded, {});
  for (std::int64_t i = 0; i < plan_.clients; ++i) {
    clients_.push_back(scene_.new_client());
    tasks_.start(use(*clients_.back()));
  }
}

// As the route does it for a call of one operation.
Task<std::optional<LockAnswer>> Locks::run(Client& client, api::LockOp op) {
  LockAnswer answer;
  answer.times.called_us = scene_.world.now_us();
  api::LockStep step(std::move(op));
  while (step.wants() != Wants::nothing) {
    machine::KvCommand body;
    body.ops.push_back(step.ask(client.dice().random()));
    ++scene_.calls;
    const auto said = co_await submit<machine::KvOutcome>(client, std::move(body), kCallTimeoutUs);
    if (!said || !said->code.empty()) co_return std::nullopt;
    ++scene_.answers;
    time_.note(said->after_us);
    answer.times.before_us = said->before_us;
    answer.times.after_us = said->after_us;
    step.told(said->outcome.ops.at(0));
  }
  answer.times.returned_us = scene_.world.now_us();
  std::string text;
  api::JsonWriter out(text);
  out.open('{').name("index").number(0);
  step.write(out);
  out.close('}');
  client.story().note("client", "{} lock in ({}, {}]: {}", client.end(), answer.times.before_us,
                      answer.times.after_us, text);
  for (const std::string_view done : {R"("acquired":true)", R"("renewed":true)", R"("released":true)"})
    answer.success = answer.success || text.find(done) != std::string::npos;
  answer.already = text.find(R"("already":true)") != std::string::npos;
  answer.slot = static_cast<std::uint32_t>(number_in(text, R"("slot":)"));
  answer.token = number_in(text, R"("token":)");
  co_return answer;
}

Task<void> Locks::use(Client& client) {
  Dice& dice = client.dice();
  for (std::int64_t i = 0; i < plan_.rounds && !scene_.quiet && !scene_.story.failed(); ++i) {
    const std::size_t lock = dice.below(plan_.limits.size());
    api::LockOp op;
    op.kind = api::LockKind::acquire;
    op.name = fmt::format("lock{}", lock);
    op.limit = plan_.limits[lock];
    op.owner = fmt::format("client{}-{}", client.end(), i);  // a handle of its own each time
    op.ttl_seconds = dice.between(1, plan_.ttl_seconds_max);
    const std::string owner = *op.owner, name = op.name;
    const std::int64_t ttl_us = op.ttl_seconds * kSecondUs;
    const auto answer = co_await run(client, op);
    if (answer && answer->success && !answer->already) {
      Handle handle{{name, answer->slot}, owner, answer->token, 0};
      handle.hold = book_.granted(handle.permit, owner, answer->token, ttl_us, answer->times);
      co_await hold(client, std::move(handle));
    }
    co_await client.sleep(dice.between(0, plan_.pause_us_max));
  }
}

Task<void> Locks::hold(Client& client, Handle handle) {
  Dice& dice = client.dice();
  for (std::int64_t steps = dice.between(0, 3); steps > 0; --steps) {
    co_await client.sleep(dice.between(0, plan_.pause_us_max));
    if (dice.chance(60)) {
      co_await work(client, handle);
      continue;
    }
    const Handle old = handle;
    const bool still = co_await renew(client, handle);
    if (!still) break;
    if (dice.chance(20)) co_await work(client, old, book_.token_given(handle.permit, handle.token));
  }
  std::int64_t dead_from_us = INT64_MAX;
  if (dice.chance(75)) dead_from_us = co_await release(client, handle);
  if (!dice.chance(30)) co_return;
  co_await client.sleep(
      dice.between(0, plan_.ttl_seconds_max * kSecondUs));  // who does not know that its time is over
  co_await work(client, handle, dead_from_us);
}

// A message that must not stand behind one of a later holder.
Task<void> Locks::work(Client& client, Handle handle, std::int64_t dead_from_us) {
  Batches batches;
  const PartitionName where{kGuarded, "p"};
  batches.emplace_back(where, std::vector{LockBook::guarded_id(handle.permit, handle.token, ++ids_)});
  scene_.ledger.sending(where, batches[0].second[0]);
  machine::TransactionCommand body;
  body.push = push_command(scene_, client, batches);
  machine::KvOp& guard = body.kv.ops.emplace_back();
  guard.kind = machine::KvKind::check;
  guard.ns = "queen-locks";
  guard.key = fmt::format("{}#{}", handle.permit.lock, handle.permit.slot);
  guard.expect = handle.token;
  guard.required = true;
  ++scene_.calls;
  const auto said =
      co_await submit<machine::TransactionOutcome>(client, std::move(body), kCallTimeoutUs, true);
  if (!said || !said->code.empty()) co_return;
  ++scene_.answers;
  client.story().note("client", "{} {}: {}", client.end(), batches[0].second[0],
                      said->outcome.reason.empty() ? "done" : said->outcome.reason);
  if (!said->outcome.reason.empty()) co_return;
  if (said->before_us >= dead_from_us)
    scene_.story.violate("a guard fences", "{} done after {}, its token was dead by {}", batches[0].second[0],
                         said->before_us, dead_from_us);
  scene_.ledger.stored(where, batches[0].second[0], said->outcome.push.batches.at(0).items.at(0).offset,
                       said->before_us, said->after_us);
}

Task<bool> Locks::renew(Client& client, Handle& handle) {
  api::LockOp op;
  op.kind = api::LockKind::renew;
  op.name = handle.permit.lock;
  op.slot = handle.permit.slot;
  op.token = handle.token;
  op.owner = handle.owner;
  op.ttl_seconds = client.dice().between(1, plan_.ttl_seconds_max);
  const std::int64_t ttl_us = op.ttl_seconds * kSecondUs;
  const std::int64_t stamp_us = time_.stamp_us();
  const auto answer = co_await run(client, std::move(op));
  if (!answer) {
    book_.maybe_renewed(handle.permit, handle.hold, ttl_us, stamp_us);
    co_return false;
  }
  if (!answer->success) {
    LockBook::Times times = answer->times;
    times.after_us = time_.at_most_us();  // what was read is of no stamp
    book_.lost(handle.permit, handle.hold, times);
    co_return false;
  }
  handle.token = answer->token;
  book_.renewed(handle.permit, handle.hold, answer->token, ttl_us, answer->times);
  co_return true;
}

Task<std::int64_t> Locks::release(Client& client, Handle handle) {
  api::LockOp op;
  op.kind = api::LockKind::release;
  op.name = handle.permit.lock;
  op.slot = handle.permit.slot;
  op.token = handle.token;
  book_.releasing(handle.permit, handle.hold, time_.stamp_us());
  const auto answer = co_await run(client, std::move(op));
  co_return answer && answer->success ? answer->times.after_us : INT64_MAX;
}

void Locks::check() {
  book_.check();
  book_.check_fences(scene_.ledger.logs(), kGuarded);
}

}  // namespace

LocksPlan draw_locks(Dice& dice, bool small, bool /*encrypted*/) {
  LocksPlan out;
  out.clients = dice.pick({2, 3, 4});
  for (std::int64_t locks = dice.pick({1, 1, 2}); locks > 0; --locks)
    out.limits.push_back(dice.pick<std::uint32_t>({1, 1, 2, 3}));
  out.rounds = small ? dice.pick({1, 2, 4}) : dice.pick({5, 20, 40});
  out.pause_us_max = dice.pick({kMsUs, 100 * kMsUs, kSecondUs});
  out.ttl_seconds_max = dice.pick({1, 2, 5});
  return out;
}

std::unique_ptr<Workload> make_locks(Scene& scene, LocksPlan plan) {
  return std::make_unique<Locks>(scene, std::move(plan));
}

}  // namespace queen::sim
