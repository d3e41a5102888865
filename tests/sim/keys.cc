#include "keys.h"

#include <algorithm>

#include "broker/kv_reads.h"
#include "key_book.h"
#include "traffic.h"

namespace queen::sim {
namespace {

using machine::KvOp;
using Kind = machine::KvKind;

constexpr std::string_view kNamespace = "keys";
constexpr std::uint32_t kRowsMax = 1000;
constexpr int kLastReadsMax = 200;

class Keys final : public Workload {
 public:
  Keys(Scene& scene, KeysPlan plan)
      : scene_(scene),
        plan_(plan),
        tasks_(scene.clients.lane),
        time_(scene.node, scene.world),
        book_(scene.story, time_) {}

  std::string_view name() const override { return "keys"; }
  void start() override;
  bool ended() const override { return tasks_.ended(); }
  void drain() override;
  void check() override;

 private:
  Task<void> use(Client& client);
  Task<void> read_last(Client& client);
  // False: it was not answered.
  Task<bool> call(Client& client, std::vector<KvOp> ops);
  std::vector<KvOp> draw_call(Client& client);
  KvOp draw_op(Client& client, const std::string& key);
  KvOp read_all() const;
  void note(const std::vector<KvOp>& ops, const machine::KvOutcome& outcome);
  void tell(Client& client, const std::vector<KvOp>& ops, const machine::KvOutcome& outcome);
  void draw_expiry(Dice& dice, KvOp& op);

  Scene& scene_;
  KeysPlan plan_;
  Tasks tasks_;
  LogTime time_;
  KeyBook book_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::map<std::string, std::uint64_t> versions_;  // as somebody saw them last
  std::uint64_t values_ = 0;
};

std::string name_of(std::int64_t i) {
  return fmt::format("k/{}", i);
}

void Keys::start() {
  for (std::int64_t i = 0; i < plan_.clients; ++i) {
    clients_.push_back(scene_.new_client());
    tasks_.start(use(*clients_.back()));
  }
}

void Keys::draw_expiry(Dice& dice, KvOp& op) {
  if (dice.chance(40)) op.ttl_seconds = dice.pick({1, 1, 2, 4, 1000});
}

KvOp Keys::draw_op(Client& client, const std::string& key) {
  Dice& dice = client.dice();
  KvOp op;
  op.ns = kNamespace;
  op.key = key;
  op.kind = dice.pick({Kind::get, Kind::get, Kind::put, Kind::put, Kind::put, Kind::put_if_absent, Kind::del,
                       Kind::incr, Kind::incr, Kind::check});
  const bool writes = op.kind == Kind::put || op.kind == Kind::put_if_absent;
  if (writes)
    op.value = dice.chance(80) ? std::to_string(1000 * ++values_) : fmt::format(R"("text {}")", ++values_);
  if (op.kind == Kind::incr) op.delta = std::to_string(dice.between(-3, 9));
  if (writes || op.kind == Kind::incr) draw_expiry(dice, op);
  const bool conditional = op.kind == Kind::put || op.kind == Kind::del;
  if (op.kind == Kind::check || (conditional && dice.chance(50)))
    op.expect = dice.chance(25) ? 0 : versions_[key];
  op.required = op.kind != Kind::get && dice.chance(25);
  return op;
}

KvOp Keys::read_all() const {
  KvOp op;
  op.kind = Kind::get_many;
  op.ns = kNamespace;
  for (std::int64_t i = 0; i < plan_.keys; ++i) op.keys.push_back(name_of(i));
  return op;
}

std::vector<KvOp> Keys::draw_call(Client& client) {
  Dice& dice = client.dice();
  std::map<std::string, KvOp> ops;
  for (std::int64_t count = dice.pick({0, 1, 1, 1, 2, 3}); count > 0; --count) {
    const std::string key =
        name_of(static_cast<std::int64_t>(dice.below(static_cast<std::uint64_t>(plan_.keys))));
    ops.try_emplace(key, draw_op(client, key));
  }
  std::vector<KvOp> call;
  for (auto& [key, op] : ops) call.push_back(std::move(op));
  if (call.empty() || dice.chance(15)) call.insert(call.begin(), read_all());
  return call;
}

Task<void> Keys::use(Client& client) {
  for (std::int64_t i = 0; i < plan_.calls && !scene_.quiet && !scene_.story.failed(); ++i) {
    std::vector<KvOp> ops = draw_call(client);
    co_await call(client, std::move(ops));
    co_await client.sleep(client.dice().between(0, plan_.pause_us_max));
  }
}

Task<bool> Keys::call(Client& client, std::vector<KvOp> ops) {
  machine::KvCommand body;
  body.ops = ops;
  time_.note(0);
  const std::int64_t called = scene_.world.now_us(), stamp = time_.stamp_us();
  ++scene_.calls;
  const auto said = co_await submit<machine::KvOutcome>(client, std::move(body), kCallTimeoutUs);
  time_.note(said ? said->after_us : 0);
  if (!said) {
    client.story().note("client", "{} keys: no answer", client.end());
    book_.unknown(ops, called, stamp);
    co_return false;
  }
  ++scene_.answers;
  if (!said->code.empty()) co_return false;
  tell(client, ops, said->outcome);
  book_.answered(ops, said->outcome, called, scene_.world.now_us());
  note(ops, said->outcome);
  co_return true;
}

// For the story.
void Keys::tell(Client& client, const std::vector<KvOp>& ops, const machine::KvOutcome& outcome) {
  if (!client.story().keeps()) return;
  static constexpr std::string_view kNames[] = {"get",         "getMany", "getPrefix", "put",
                                                "putIfAbsent", "delete",  "incr",      "check"};
  if (outcome.failed_index)
    client.story().note("client", "{} keys: {} lost, {}", client.end(), ops.at(*outcome.failed_index).key,
                        outcome.failed_reason);
  for (std::size_t i = 0; i < outcome.ops.size(); ++i) {
    const auto& row = outcome.ops[i].row;
    client.story().note("client", "{} {} {}: {} {}, version {}, updated {}, expires {}", client.end(),
                        kNames[static_cast<std::size_t>(ops[i].kind)], ops[i].key,
                        outcome.ops[i].applied ? "applied" : outcome.ops[i].reason, row ? row->value : "-",
                        row ? row->version : 0, row ? row->updated_at : 0,
                        row ? row->expires_at.value_or(0) : 0);
  }
}

// What later conditions are about.
void Keys::note(const std::vector<KvOp>& ops, const machine::KvOutcome& outcome) {
  for (std::size_t i = 0; i < outcome.ops.size(); ++i) {
    if (outcome.ops[i].row) versions_[ops[i].key] = outcome.ops[i].row->version;
    for (const auto& row : outcome.ops[i].rows) versions_[row.key] = row.version;
  }
}

void Keys::drain() {
  clients_.push_back(scene_.new_client());
  tasks_.start(read_last(*clients_.back()));
}

// Behind every call that was given up while it was under way.
Task<void> Keys::read_last(Client& client) {
  co_await client.sleep(kLateUs + kSecondUs);
  for (int tries = 0; tries < kLastReadsMax; ++tries) {
    std::vector<KvOp> ops{read_all()};
    const bool answered = co_await call(client, std::move(ops));
    if (answered) co_return;
    co_await client.sleep(100 * kMsUs);
  }
  scene_.story.violate("progress", "keys cannot be read");
}

void Keys::check() {
  broker::KvListQuery query;
  query.ns = kNamespace;
  query.limit = kRowsMax;
  query.include_expired = true;
  const broker::KvReads reads(scene_.node.broker().state());
  std::map<std::string, machine::KvFound> rows;
  for (const auto& one : reads.list(std::string(kDefaultTenant), query, 0).rows)
    rows[one.key] = {one.key, one.row.value, one.row.version, one.row.expires_at, one.row.updated};
  book_.check(rows, scene_.node.safe_time_us());
}

}  // namespace

KeysPlan draw_keys(Dice& dice, bool small, bool /*encrypted*/) {
  KeysPlan out;
  out.clients = dice.pick({2, 3, 4});
  out.keys = dice.pick({1, 2, 4});
  out.calls = small ? dice.pick({3, 6, 10}) : dice.pick({10, 30, 60});
  out.pause_us_max = dice.pick({kMsUs, 50 * kMsUs, 400 * kMsUs, 2 * kSecondUs});
  return out;
}

std::unique_ptr<Workload> make_keys(Scene& scene, KeysPlan plan) {
  return std::make_unique<Keys>(scene, plan);
}

}  // namespace queen::sim
