// Random histories of the key/value store and of locks made of it, with time, sweeps, checkpoints, kills and
// restarts in between: calls are whole or not at all, versions only rise, no permit has two holders, and a
// guard holds for the holder alone (api-state.md KV-1 to KV-17, LK-1 to LK-13).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>
#include <map>

#include "api/detail/locks.h"
#include "disk/ram_disk.h"
#include "mini_node.h"

namespace queen::history {
namespace {

using machine::KvKind;
using machine::KvOp;
using machine::KvOpOutcome;
using machine::KvOutcome;

constexpr std::int64_t kSecond = 1'000'000;
// No lifetime is a multiple of it, so that nothing hangs on the microsecond.
constexpr std::int64_t kWaitUs = 370'001;

using Numbers = std::array<int, 4>;

crash::NodeOptions small_files() {
  crash::NodeOptions options;
  options.logs.segment_bytes = 2048;
  options.logs.prealloc_bytes = 0;
  options.logs.precreate = false;
  return options;
}

// A node that answers one call after the other, and forgets nothing it answered.
class Server {
 public:
  Server() : node_(disk_, clock_, small_files()) { clock_.advance(1'000'000'000'000); }

  std::string open() {
    if (auto done = node_.open(); !done) return done.error().what;
    return {};
  }
  // The outcome, and the log time of the call.
  KvOutcome call(std::vector<KvOp> ops, std::int64_t& now) {
    const auto outcome = submit(machine::KvCommand{std::move(ops)}, now);
    return std::get<KvOutcome>(outcome.body);
  }
  void sweep() {
    std::int64_t now = 0;
    submit(machine::KvSweepCommand{2}, now);
  }
  void wait(int times) { clock_.advance(kWaitUs * times); }
  // Kills or ends the node and starts it again, at times behind a checkpoint.
  std::string restart(int how) {
    if (how % 2 == 0) node_.checkpoint();
    if (how % 3 == 0) {
      if (auto done = node_.stop(); !done) return done.error().what;
    } else {
      node_.kill();
    }
    return open();
  }

 private:
  template <class Body>
  machine::Outcome submit(Body body, std::int64_t& now) {
    Uuid id;
    const std::uint64_t number = ++uuids_;
    for (std::size_t i = 0; i < 8; ++i) id.bytes[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
    const auto planned = node_.plan({{std::string(kDefaultTenant), id, std::move(body)}});
    now = planned.entry ? planned.entry->now_us : clock_.wall_us();
    if (planned.index != 0) {
      RC_ASSERT(node_.write_and_sync({planned}).has_value());
      RC_ASSERT(node_.apply({planned}).has_value());
    }
    return planned.outcomes.at(0);
  }

  ManualClock clock_;
  disk::RamDisk disk_;
  crash::MiniNode node_;
  std::uint64_t uuids_ = 0;
};

// ---- key/value ----

struct Row {
  std::int64_t number = 0;
  std::uint64_t version = 0;
  std::optional<std::int64_t> expires;
  bool live_at(std::int64_t now) const { return !expires || *expires > now; }
};
using Rows = std::map<std::string, Row>;

// Why the operation does not apply, by the contract; empty when it does, and then `rows` are as after it.
std::string apply(Rows& rows, const KvOp& op, std::int64_t now, std::uint64_t version) {
  const auto at = rows.find(op.key);
  const bool there = at != rows.end() && at->second.live_at(now);
  if (op.expect || op.kind == KvKind::put_if_absent) {
    const std::uint64_t expect = op.expect.value_or(0);
    if (expect == 0 && there) return "exists";
    if (expect != 0 && !there) return "absent";
    if (expect != 0 && at->second.version != expect) return "version";
  }
  if (op.kind == KvKind::check) return {};
  if (op.kind == KvKind::del) {
    if (!there && !op.expect) return "absent";
    rows.erase(op.key);
    return {};
  }
  Row next{0, version, std::nullopt};
  if (op.ttl_seconds) next.expires = now + *op.ttl_seconds * kSecond;
  if (op.kind == KvKind::incr) {
    next.number = (there ? at->second.number : 0) + std::stoll(op.delta);
    if (!op.max.empty() && next.number > std::stoll(op.max)) return "limit";
    if (there) next.expires = at->second.expires;
  } else {
    next.number = std::stoll(op.value);
  }
  rows[op.key] = next;
  return {};
}

class KvHistory {
 public:
  void run(const std::vector<Numbers>& steps) {
    RC_ASSERT(server_.open() == "");
    for (const Numbers& step : steps) {
      if (step[0] < 44) {
        call(step);
      } else if (step[0] < 54) {
        server_.wait(step[1] % 6);
      } else if (step[0] < 58) {
        server_.sweep();
      } else {
        RC_ASSERT(server_.restart(step[1]) == "");
      }
    }
    RC_ASSERT(server_.restart(1) == "");
    look();
  }

 private:
  static KvOp op(KvKind kind, std::string key) {
    KvOp out;
    out.kind = kind;
    out.ns = "n";
    out.key = std::move(key);
    return out;
  }
  KvOp write_op(const std::string& key, int draw, int more) {
    constexpr std::array kKinds = {KvKind::put, KvKind::put_if_absent, KvKind::del,  KvKind::incr,
                                   KvKind::put, KvKind::check,         KvKind::incr, KvKind::get};
    KvOp out = op(kKinds.at(static_cast<std::size_t>(draw) % kKinds.size()), key);
    out.value = std::to_string(++numbers_);
    out.delta = std::to_string(more % 7 - 3);
    if (more % 3 == 0) out.max = "40";
    if (more % 2 == 0) out.ttl_seconds = 1 + more % 3;
    const auto row = rows_.find(key);
    const std::uint64_t version = row == rows_.end() ? 0 : row->second.version;
    const bool may_expect = out.kind == KvKind::put || out.kind == KvKind::del;
    if (out.kind == KvKind::check || (may_expect && draw % 5 == 0))
      out.expect = std::array<std::uint64_t, 3>{version, 0, 7}.at(static_cast<std::size_t>(more) % 3);
    out.required = out.kind != KvKind::get && more % 8 == 1;
    return out;
  }

  void call(const Numbers& step) {
    std::vector<KvOp> ops;
    for (int i = 0; i <= step[1] % 3; ++i)
      ops.push_back(
          write_op(std::string(1, static_cast<char>('a' + (step[2] + i) % 4)), step[2] + 7 * i, step[3] + i));
    KvOp all = op(KvKind::get_many, "");
    all.keys = {"a", "b", "c", "d"};
    ops.push_back(all);
    std::int64_t now = 0;
    const KvOutcome out = server_.call(ops, now);
    judge(ops, out, now);
  }

  // In the order of keys: each is named once.
  void judge(const std::vector<KvOp>& ops, const KvOutcome& out, std::int64_t now) {
    Rows after = rows_;
    std::map<std::string, std::size_t> order;
    for (std::size_t i = 0; i + 1 < ops.size(); ++i) order[ops[i].key] = i;
    std::optional<std::uint32_t> lost;
    for (const auto& [key, i] : order) {
      if (lost || ops[i].kind == KvKind::get) continue;
      const KvOpOutcome got = out.failed_index ? KvOpOutcome() : out.ops.at(i);
      const std::uint64_t version = got.row ? got.row->version : 0;
      const std::string reason = apply(after, ops[i], now, version);
      if (!reason.empty() && ops[i].required) lost = static_cast<std::uint32_t>(i);
      if (out.failed_index) continue;
      RC_ASSERT(got.applied == reason.empty());
      RC_ASSERT(got.reason == reason);
      if (!got.applied || ops[i].kind == KvKind::del || ops[i].kind == KvKind::check) continue;
      RC_ASSERT(version > highest_);
      highest_ = version;
    }
    RC_ASSERT(out.failed_index == lost);
    if (lost) return look();
    rows_ = std::move(after);
    compare(out.ops.back(), now);
  }

  void look() {
    KvOp all = op(KvKind::get_many, "");
    all.keys = {"a", "b", "c", "d"};
    std::int64_t now = 0;
    const KvOutcome out = server_.call({all}, now);
    compare(out.ops.at(0), now);
  }
  void compare(const KvOpOutcome& read, std::int64_t now) {
    std::map<std::string, std::string> got, expected;
    for (const auto& row : read.rows) got[row.key] = fmt::format("{} v{}", row.value, row.version);
    for (const auto& [key, row] : rows_)
      if (row.live_at(now)) expected[key] = fmt::format("{} v{}", row.number, row.version);
    RC_ASSERT(got == expected);
  }

  Server server_;
  Rows rows_;
  std::uint64_t highest_ = 0;
  int numbers_ = 0;
};

// ---- locks ----

// What the node answered last about a permit.
struct Permit {
  int client = 0;
  std::uint64_t token = 0;
  std::int64_t expires = 0;
};

// Clients whose operations advance one call to the store at a time, in any order. A restart in between is
// what makes a client send its operation again.
class LocksHistory {
 public:
  void run(const std::vector<Numbers>& steps) {
    RC_ASSERT(server_.open() == "");
    for (const Numbers& step : steps) {
      if (step[0] < 50) {
        act(step);
      } else if (step[0] < 57) {
        server_.wait(step[1] % 6);
      } else if (step[0] < 60) {
        server_.sweep();
      } else {
        RC_ASSERT(server_.restart(step[1]) == "");
        for (Client& client : clients_) client.step.reset();
      }
    }
  }

 private:
  static constexpr std::uint32_t kLimit = 2;
  struct Client {
    std::optional<api::LockStep> step;
    api::LockOp op;
    std::optional<std::uint32_t> slot;  // of the permit it was given
    std::uint64_t token = 0;
  };

  void act(const Numbers& numbers) {
    const int number = numbers[1] % static_cast<int>(clients_.size());
    Client& client = clients_.at(static_cast<std::size_t>(number));
    if (client.step) return advance(number, client);
    if (client.slot && numbers[2] % 4 == 0) return guard(number, client);
    api::LockOp op;
    op.name = "n";
    op.ttl_seconds = 1 + numbers[3] % 3;
    op.owner = fmt::format("client {}", number);
    op.limit = kLimit;
    op.kind = !client.slot          ? api::LockKind::acquire
              : numbers[2] % 3 == 0 ? api::LockKind::release
                                    : api::LockKind::renew;
    op.slot = client.slot.value_or(0);
    op.token = client.token;
    client.op = op;
    client.step.emplace(op);
    advance(number, client);
  }

  void advance(int number, Client& client) {
    const bool writes = client.step->wants() == api::LockStep::Wants::write;
    const KvOp ask = client.step->ask(random_);
    std::int64_t now = 0;
    const KvOutcome out = server_.call({ask}, now);
    const KvOpOutcome& told = out.ops.at(0);
    if (writes && told.applied) written(number, ask, told, now);
    client.step->told(told);
    if (client.step->wants() == api::LockStep::Wants::nothing) ended(number, client, now);
  }

  // A row of a permit was written: nobody else may have it.
  void written(int number, const KvOp& ask, const KvOpOutcome& told, std::int64_t now) {
    const auto slot = static_cast<std::uint32_t>(std::stoul(ask.key.substr(2)));
    RC_ASSERT(slot < kLimit);
    const auto before = permits_.find(slot);
    const bool live = before != permits_.end() && before->second.expires > now;
    if (ask.kind == KvKind::del) {
      RC_ASSERT(live && before->second.client == number && before->second.token == *ask.expect);
      permits_.erase(before);
      return;
    }
    RC_ASSERT(live == (ask.kind == KvKind::put));
    if (live) RC_ASSERT(before->second.client == number);
    RC_ASSERT(told.row->version > tokens_[slot]);  // a fencing token only rises
    tokens_[slot] = told.row->version;
    permits_[slot] = {number, told.row->version, now + *ask.ttl_seconds * kSecond};
  }

  // What the client is told agrees with who has the permit.
  void ended(int number, Client& client, std::int64_t now) {
    const std::string text = text_of(*client.step);
    const bool granted = text.find("ed\":true") != std::string::npos;
    const bool release = client.op.kind == api::LockKind::release;
    client.step.reset();
    client.slot.reset();
    if (release) return;  // a stale token gives nothing back: the next acquire is told what is still held
    for (const auto& [slot, permit] : permits_) {
      if (permit.client != number || permit.expires <= now) continue;
      client.slot = slot;
      client.token = permit.token;
      RC_ASSERT(text.find(fmt::format("\"slot\":{},\"token\":{}", slot, permit.token)) != std::string::npos);
    }
    RC_ASSERT(granted == client.slot.has_value());
  }
  static std::string text_of(const api::LockStep& step) {
    std::string text;
    api::JsonWriter out(text);
    out.open('{');
    step.write(out);
    out.close('}');
    return text;
  }

  // A write under the guard applies for who holds the permit with this token, and for nobody else.
  void guard(int number, const Client& client) {
    KvOp check;
    check.kind = KvKind::check;
    check.ns = "queen-locks";
    check.key = fmt::format("n#{}", *client.slot);
    check.expect = client.token;
    check.required = true;
    KvOp work;
    work.kind = KvKind::put;
    work.ns = "work";
    work.key = "k";
    work.value = "1";
    std::int64_t now = 0;
    const KvOutcome out = server_.call({check, work}, now);
    const auto permit = permits_.find(*client.slot);
    const bool holds = permit != permits_.end() && permit->second.client == number &&
                       permit->second.token == client.token && permit->second.expires > now;
    RC_ASSERT(!out.failed_index.has_value() == holds);
  }

  Server server_;
  SeededRandom random_{3};
  std::array<Client, 4> clients_;
  std::map<std::uint32_t, Permit> permits_;        // by slot
  std::map<std::uint32_t, std::uint64_t> tokens_;  // highest of each slot
};

rc::Gen<std::vector<Numbers>> histories() {
  const auto small = rc::gen::inRange(0, 64);
  return rc::gen::container<std::vector<Numbers>>(rc::gen::container<Numbers>(small));
}

TEST(KvHistories, CallsAreWholeAndVersionsRiseOverRestarts) {
  EXPECT_TRUE(rc::check("every answer of the store is one that the contract allows", [] {
    KvHistory history;
    history.run(*histories());
  }));
}

TEST(LockHistories, APermitHasOneHolderAndItsTokenRises) {
  EXPECT_TRUE(rc::check("permits are exclusive and fenced", [] {
    LocksHistory history;
    history.run(*histories());
  }));
}

}  // namespace
}  // namespace queen::history
