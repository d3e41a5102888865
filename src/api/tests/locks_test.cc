// Locks: the validation table, and what each operation asks of its rows and answers.
#include "api/detail/locks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/tests/fake_broker.h"

namespace queen::api {
namespace {

using machine::KvFound;
using machine::KvKind;
using machine::KvOp;
using machine::KvOpOutcome;

std::string verdict(const std::string& body) {
  const auto parsed = parse_locks(body);
  if (parsed) return "accepted";
  return std::to_string(parsed.error().status) + " " + parsed.error().error + " " + parsed.error().reason;
}
std::string op(const std::string& fields) {
  return "[{" + fields + "}]";
}
std::string acquire(const std::string& fields) {
  return op(R"("op":"acquire","name":"n","ttlSeconds":5,)" + fields);
}
std::string renew(const std::string& fields) {
  return op(R"("op":"renew","name":"n","ttlSeconds":5,)" + fields);
}
std::string named(const std::string& name) {
  return op(R"("op":"get","name":")" + name + '"');
}

TEST(LocksValidation, FollowsItsTable) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", "locks_bad_body"},
      {"7", "locks_bad_body"},
      {"{}", "locks_bad_body"},
      {R"({"operations":7})", "locks_bad_body"},
      {"[7]", "locks_bad_request"},
      {op(R"("name":"n")"), "locks_unknown_op"},
      {op(R"("op":"lock","name":"n")"), "locks_unknown_op"},
      {op(R"("op":"get","name":"n","tenant":"t")"), "locks_tenant_not_an_input"},
      {op(R"("op":"get")"), "locks_bad_name"},
      {op(R"("op":"get","name":7)"), "locks_bad_name"},
      {named(""), "locks_bad_name"},
      {named("a#b"), "locks_bad_name"},
      {named("a\\nb"), "locks_bad_name"},
      {named("a\\u007f"), "locks_bad_name"},
      {named("a\\u0085"), "locks_bad_name"},
      {named(std::string(257, 'n')), "locks_bad_name"},
      {op(R"("op":"acquire","name":"n")"), "locks_ttl_required"},
      {acquire(R"("forever":true)"), "locks_ttl_required"},
      {acquire(R"("forever":false)"), "locks_ttl_required"},
      {op(R"("op":"acquire","name":"n","forever":null)"), "locks_ttl_required"},
      {op(R"("op":"acquire","name":"n","ttlSeconds":0)"), "locks_bad_ttl"},
      {op(R"("op":"acquire","name":"n","ttlSeconds":1.5)"), "locks_bad_ttl"},
      {op(R"("op":"acquire","name":"n","ttlSeconds":"5")"), "locks_bad_ttl"},
      {op(R"("op":"renew","name":"n","token":1,"ttlSeconds":null)"), "locks_bad_ttl"},
      {acquire(R"("owner":"")"), "locks_bad_owner"},
      {acquire(R"("owner":7)"), "locks_bad_owner"},
      {acquire(R"("owner":"a\tb")"), "locks_bad_owner"},
      {acquire(R"("owner":")" + std::string(257, 'o') + '"'), "locks_bad_owner"},
      {op(R"("op":"renew","name":"n","ttlSeconds":5)"), "locks_token_required"},
      {op(R"("op":"release","name":"n")"), "locks_token_required"},
      {renew(R"("token":0)"), "locks_bad_token"},
      {renew(R"("token":"1")"), "locks_bad_token"},
      {renew(R"("token":null)"), "locks_bad_token"},
      {renew(R"("token":1,"slot":-1)"), "locks_bad_slot"},
      {renew(R"("token":1,"slot":1024)"), "locks_bad_slot"},
      {renew(R"("token":1,"slot":"0")"), "locks_bad_slot"},
      {acquire(R"("limit":0)"), "locks_bad_limit"},
      {acquire(R"("limit":1025)"), "locks_bad_limit"},
      {acquire(R"("limit":null)"), "locks_bad_limit"},
      {R"([{"op":"get","name":"n"},{"op":"release","name":"n","token":1}])", "locks_duplicate_in_call"}};
  for (const auto& [body, reason] : rows) EXPECT_EQ(verdict(body), "400 locks_bad_request " + reason) << body;
}

TEST(LocksValidation, CountsOperationsAndRows) {
  const auto many = [](int count, const std::string& fields) {
    std::string body = "[";
    for (int i = 0; i < count; ++i)
      body += (i == 0 ? "" : ",") + std::string(R"({"name":"n)") + std::to_string(i) + R"(",)" + fields + "}";
    return body + "]";
  };
  EXPECT_EQ(verdict(many(64, R"("op":"release","token":1)")), "accepted");
  EXPECT_EQ(verdict(many(65, R"("op":"release","token":1)")), "400 locks_bad_request locks_too_many_ops");
  EXPECT_EQ(verdict(many(4, R"("op":"get")")), "accepted");
  EXPECT_EQ(verdict(many(5, R"("op":"get")")), "400 locks_bad_request locks_too_many_keys");
  EXPECT_EQ(verdict(many(4, R"("op":"acquire","ttlSeconds":1,"limit":1024)")), "accepted");
  EXPECT_EQ(verdict(many(5, R"("op":"acquire","ttlSeconds":1,"limit":1024)")),
            "400 locks_bad_request locks_too_many_keys");
}

KvFound row(const std::string& key, const std::string& value, std::uint64_t version) {
  return {key, value, version, 1'000'000'000'000'000, 999'000'000'500'000};
}
KvOpOutcome applied(std::optional<KvFound> stored) {
  KvOpOutcome out;
  out.applied = true;
  out.row = std::move(stored);
  return out;
}
KvOpOutcome lost(std::optional<KvFound> there) {
  KvOpOutcome out;
  out.reason = there ? "version" : "absent";
  out.row = std::move(there);
  return out;
}
KvOpOutcome found(std::optional<KvFound> there) {
  KvOpOutcome out;
  out.row = std::move(there);
  return out;
}

// A call to the locks route whose store calls the test answers one by one.
class Locks : public ::testing::Test {
 protected:
  void call(const std::string& body) { sent_ = rig_.post(handle_locks, body); }
  // The operations of the call that waits for its answer, as `kind key`.
  std::vector<std::string> asked() {
    constexpr std::array kNames = {"get",         "getMany", "getPrefix", "put",
                                   "putIfAbsent", "delete",  "incr",      "check"};
    std::vector<std::string> out;
    if (rig_.broker.outcomes.empty()) return out;
    for (const KvOp& one : ops())
      out.push_back(std::string(kNames.at(static_cast<std::size_t>(one.kind))) + " " +
                    (one.kind == KvKind::get_many ? std::to_string(one.keys.size()) + " keys" : one.key));
    return out;
  }
  const std::vector<KvOp>& ops() {
    return std::get<machine::KvCommand>(rig_.broker.commands.back().body).ops;
  }
  void answer(std::vector<KvOpOutcome> outcomes) {
    auto done = std::move(rig_.broker.outcomes.front());
    rig_.broker.outcomes.pop_front();
    machine::KvOutcome body;
    body.ops = std::move(outcomes);
    done(machine::Outcome{{}, {}, std::move(body)});
  }
  std::string result() {
    const std::string text = answer_of(sent_);
    const std::string head = R"(200 {"results":[{"index":0,)";
    return text.starts_with(head) ? text.substr(head.size(), text.size() - head.size() - 3) : text;
  }

  Rig rig_;
  std::shared_ptr<Sent> sent_;
};
using Asked = std::vector<std::string>;

const std::string kGuard =
    R"("guard":{"op":"check","ns":"queen-locks","key":"n#0","expect":7,"required":true})";

TEST_F(Locks, ALockIsOneWrite) {
  call(acquire(R"("owner":"me")"));
  EXPECT_EQ(asked(), Asked{"putIfAbsent n#0"});
  EXPECT_EQ(ops()[0].ns, "queen-locks");
  EXPECT_EQ(ops()[0].value, R"({"owner":"me"})");
  EXPECT_EQ(ops()[0].ttl_seconds, 5);
  answer({applied(row("n#0", R"({"owner":"me"})", 7))});
  EXPECT_EQ(result(),
            R"("op":"acquire","name":"n","acquired":true,"slot":0,"token":7,"owner":"me",)" + kGuard);
}

TEST_F(Locks, ALockWithoutAnOwnerIsNobodys) {
  call(acquire(R"("owner":null)"));
  EXPECT_EQ(ops()[0].value, R"({"owner":null})");
  answer({lost(row("n#0", R"({"owner":null})", 7))});
  EXPECT_EQ(
      result(),
      R"("op":"acquire","name":"n","acquired":false,"reason":"held","holders":[{"slot":0,"owner":null}])");
}

TEST_F(Locks, TheSameOwnerIsToldWhatItHolds) {
  call(acquire(R"("owner":"me")"));
  answer({lost(row("n#0", R"({"owner":"me","since":"x"})", 7))});
  EXPECT_EQ(result(), R"("op":"acquire","name":"n","acquired":true,"slot":0,"token":7,"owner":"me",)" +
                          kGuard + R"(,"already":true)");
}

KvOpOutcome slots(std::vector<KvFound> rows, std::vector<std::string> missing) {
  KvOpOutcome out;
  out.rows = std::move(rows);
  out.missing = std::move(missing);
  return out;
}

TEST_F(Locks, ASemaphoreReadsItsSlotsAndTakesAFreeOne) {
  std::set<std::string> taken;
  for (int i = 0; i < 40; ++i) {
    call(acquire(R"("owner":"me","limit":3)"));
    EXPECT_EQ(asked(), Asked{"getMany 3 keys"});
    answer({slots({row("n#1", R"({"owner":"a"})", 4)}, {"n#0", "n#2"})});
    taken.insert(asked().at(0));
    answer({applied(row("n#2", "{}", 9))});
  }
  EXPECT_EQ(taken, (std::set<std::string>{"putIfAbsent n#0", "putIfAbsent n#2"}));
}

TEST_F(Locks, ASemaphoreWhoseSlotsAreAllLiveIsHeld) {
  call(acquire(R"("limit":3)"));
  // What the bytes of the read had no room for is held too, by somebody.
  answer({slots({row("n#1", R"({"owner":"b"})", 4), row("n#0", "7", 3)}, {})});
  EXPECT_EQ(
      result(),
      R"("op":"acquire","name":"n","acquired":false,"reason":"held","holders":[{"slot":0,"owner":null},)"
      R"({"slot":1,"owner":"b"},{"slot":2,"owner":null}])");
}

TEST_F(Locks, ASemaphoreTellsItsOwnerThePermitItHolds) {
  call(acquire(R"("owner":"b","limit":3)"));
  answer({slots({row("n#1", R"({"owner":"b"})", 4), row("n#2", R"({"owner":"b"})", 5)}, {"n#0"})});
  EXPECT_THAT(result(), ::testing::HasSubstr(R"("slot":1,"token":4,"owner":"b")"));
  EXPECT_THAT(result(), ::testing::EndsWith(R"("already":true)"));
}

TEST_F(Locks, ARaceForASlotIsTriedFourTimes) {
  call(acquire(R"("owner":"me","limit":2)"));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(asked(), Asked{"getMany 2 keys"});
    answer({slots({row("n#1", R"({"owner":"b"})", 4)}, {"n#0"})});
    EXPECT_EQ(asked(), Asked{"putIfAbsent n#0"});
    answer({lost(row("n#0", R"({"owner":"c"})", 5))});
  }
  EXPECT_EQ(
      result(),
      R"("op":"acquire","name":"n","acquired":false,"reason":"contended","holders":[{"slot":1,"owner":"b"}])");
}

TEST_F(Locks, ARenewKeepsTheValueAndNotesTheAcquire) {
  call(renew(R"("token":7)"));
  EXPECT_EQ(asked(), Asked{"get n#0"});
  answer({found(row("n#0", R"({"owner":"me","x":1})", 7))});
  EXPECT_EQ(asked(), Asked{"put n#0"});
  EXPECT_EQ(ops()[0].expect, 7U);
  EXPECT_EQ(ops()[0].ttl_seconds, 5);
  EXPECT_EQ(ops()[0].value, R"({"owner":"me","x":1,"since":"2001-08-28T12:00:00.5+00:00"})");
  answer({applied(row("n#0", "{}", 9))});
  EXPECT_EQ(result(), R"("op":"renew","name":"n","renewed":true,"slot":0,"token":9,)"
                      R"("guard":{"op":"check","ns":"queen-locks","key":"n#0","expect":9,"required":true})");
}

TEST_F(Locks, ALaterRenewCarriesTheTimeOfTheAcquire) {
  const std::string value = R"({"owner":"me","since":"2001-01-01T00:00:00+00:00"})";
  for (const std::string& kept : {value, std::string("7"), std::string(R"("text")"), std::string("[]")}) {
    call(renew(R"("token":7,"slot":3)"));
    answer({found(row("n#3", kept, 7))});
    EXPECT_EQ(ops()[0].value, kept);
    answer({applied(row("n#3", kept, 9))});
  }
  call(renew(R"("token":7)"));
  answer({found(row("n#0", "{ }", 7))});
  EXPECT_EQ(ops()[0].value, R"({ "since":"2001-08-28T12:00:00.5+00:00"})");
  answer({applied(row("n#0", "{}", 9))});
}

TEST_F(Locks, AStaleTokenRenewsForItsOwnerOnly) {
  call(renew(R"("token":5,"owner":"me")"));
  answer({found(row("n#0", R"({"owner":"me"})", 7))});
  EXPECT_EQ(ops()[0].expect, 7U);
  answer({applied(row("n#0", "{}", 9))});
  call(renew(R"("token":5,"owner":"you")"));
  answer({found(row("n#0", R"({"owner":"me"})", 7))});
  EXPECT_EQ(
      result(),
      R"("op":"renew","name":"n","renewed":false,"reason":"lost","slot":0,"holders":[{"slot":0,"owner":"me"}])");
  call(renew(R"("token":5)"));
  answer({found(row("n#0", R"({"owner":null})", 7))});
  EXPECT_THAT(result(), ::testing::HasSubstr("lost"));
  call(renew(R"("token":5)"));
  answer({found(std::nullopt)});
  EXPECT_EQ(result(), R"("op":"renew","name":"n","renewed":false,"reason":"lost","slot":0,"holders":[])");
}

TEST_F(Locks, ARenewThatLosesARaceIsTriedOnceMore) {
  call(renew(R"("token":7,"owner":"me")"));
  answer({found(row("n#0", R"({"owner":"me"})", 7))});
  answer({lost(row("n#0", R"({"owner":"me"})", 8))});
  EXPECT_EQ(asked(), Asked{"get n#0"});
  answer({found(row("n#0", R"({"owner":"me"})", 8))});
  answer({lost(row("n#0", R"({"owner":"you"})", 9))});
  EXPECT_EQ(
      result(),
      R"("op":"renew","name":"n","renewed":false,"reason":"lost","slot":0,"holders":[{"slot":0,"owner":"you"}])");
}

TEST_F(Locks, AReleaseIsADeleteOfItsToken) {
  call(op(R"("op":"release","name":"n","token":7,"slot":2)"));
  EXPECT_EQ(asked(), Asked{"delete n#2"});
  EXPECT_EQ(ops()[0].expect, 7U);
  answer({applied(row("n#2", "{}", 7))});
  EXPECT_EQ(result(), R"("op":"release","name":"n","released":true,"slot":2)");
  call(op(R"("op":"release","name":"n","token":7)"));
  answer({lost(std::nullopt)});
  EXPECT_EQ(result(), R"("op":"release","name":"n","released":false,"reason":"lost","slot":0,"holders":[])");
}

TEST_F(Locks, AGetReadsPagesOfTheLocksRowsAndPassesOverOthers) {
  call(named("n"));
  EXPECT_EQ(ops()[0].prefix, "n#");
  EXPECT_EQ(ops()[0].limit, 1000U);
  KvOpOutcome first = slots({row("n#01", "{}", 1), row("n#10", R"({"owner":"a"})", 2)}, {});
  first.truncated = true;
  first.next_after = "n#10";
  answer({first});
  EXPECT_EQ(ops()[0].after, "n#10");
  answer(
      {slots({row("n#1024", "{}", 3), row("n#2", R"({"owner":"b","since":"2001-01-01T00:00:00+00:00"})", 4),
              row("n#x", "{}", 5), row("n#", "{}", 6)},
             {})});
  EXPECT_EQ(result(),
            R"("op":"get","name":"n","held":true,"holders":[)"
            R"({"slot":2,"owner":"b","token":4,"since":"2001-01-01T00:00:00+00:00",)"
            R"("expiresAt":"2001-09-09T01:46:40+00:00","renewedAt":"2001-08-28T12:00:00.5+00:00"},)"
            R"({"slot":10,"owner":"a","token":2,"since":"2001-08-28T12:00:00.5+00:00",)"
            R"("expiresAt":"2001-09-09T01:46:40+00:00","renewedAt":"2001-08-28T12:00:00.5+00:00"}])");
  call(named("n"));
  answer({slots({}, {})});
  EXPECT_EQ(result(), R"("op":"get","name":"n","held":false,"holders":[])");
}

// LK-8: one read, one write with all rows, then what was lost.
TEST_F(Locks, ACallIsOneReadAndOneWrite) {
  call(R"([{"op":"acquire","name":"a","ttlSeconds":1},{"op":"acquire","name":"b","ttlSeconds":1,"limit":2},
           {"op":"renew","name":"c","ttlSeconds":1,"token":5},{"op":"release","name":"d","token":6},{"op":"get","name":"e"}])");
  EXPECT_EQ(asked(), (Asked{"getMany 2 keys", "get c#0", "getPrefix e#0"}));
  answer({slots({row("b#1", "{}", 1)}, {"b#0"}), found(row("c#0", "{}", 5)), slots({}, {})});
  EXPECT_EQ(asked(), (Asked{"putIfAbsent a#0", "putIfAbsent b#0", "put c#0", "delete d#0"}));
  answer({applied(row("a#0", "{}", 10)), applied(row("b#0", "{}", 11)), applied(row("c#0", "{}", 12)),
          applied(row("d#0", "{}", 6))});
  EXPECT_EQ(rig_.broker.commands.size(), 2U);
  EXPECT_THAT(answer_of(sent_), ::testing::HasSubstr(R"({"index":4,"op":"get","name":"e","held":false)"));
}

TEST_F(Locks, NothingIsAskedForNothing) {
  call("[]");
  EXPECT_EQ(answer_of(sent_), R"(200 {"results":[]})");
  EXPECT_TRUE(rig_.broker.commands.empty());
}

TEST_F(Locks, EngineRefusalsAreThoseOfTheStore) {
  call(named("n"));
  rig_.broker.outcomes.front()(tl::unexpected(broker::Refusal{"retry", "x"}));
  EXPECT_EQ(answer_of(sent_), R"(503 {"error":"kv_unavailable","reason":"kv_retry","detail":"x"})");
  EXPECT_EQ(header_of(sent_->responses[0], "Retry-After"), "1");
}

TEST_F(Locks, ADeadlineThatPassesIsATimeout) {
  call(named("n"));
  rig_.timers.run_for(31'000'000);
  EXPECT_THAT(answer_of(sent_),
              ::testing::StartsWith(R"(503 {"error":"kv_unavailable","reason":"kv_timeout")"));
}

}  // namespace
}  // namespace queen::api
