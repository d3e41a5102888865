// The console's routes of the key/value store: what they take, wait for and answer.
#include "api/detail/kv_console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/tests/fake_broker.h"
#include "machine/effects.h"
#include "machine/planner.h"

namespace queen::api {
namespace {

class KvConsole : public ::testing::Test {
 protected:
  void put(const std::string& ns, const std::string& key, std::optional<std::int64_t> expires_at) {
    store::KvRow row;
    row.value = R"({"a": 1})";
    row.version = ++version_;
    row.expires_at = expires_at;
    row.updated = 1'000'000'000'000'500;
    const auto gate = rig_.broker.store.write_gate();
    const machine::KvPut put{std::string(kDefaultTenant), ns, key, row};
    ASSERT_TRUE(machine::run_effect(rig_.broker.store, put, EntryIndex{version_}, 0, 1));
  }
  std::string answer(const std::shared_ptr<Sent>& sent) {
    EXPECT_TRUE(sent->responses.empty()) << "before what was answered is applied";
    rig_.broker.barriers.back()({});
    return answer_of(sent);
  }

  Rig rig_;
  std::uint64_t version_ = 0;
};

TEST_F(KvConsole, ListsRowsBehindABarrier) {
  put("n", "a", std::nullopt);
  put("n", "b", 4'000'000'000'000'000);
  EXPECT_EQ(
      answer(rig_.post(handle_kv_list, R"({"namespace":"n"})")),
      R"(200 {"rows":[{"key":"a","value":{"a": 1},"version":1,"expiresAt":null,"updatedAt":"2001-09-09T01:46:40.000500Z"},)"
      R"({"key":"b","value":{"a": 1},"version":2,"expiresAt":"2096-10-02T07:06:40.000000Z","updatedAt":"2001-09-09T01:46:40.000500Z"}],)"
      R"("truncated":false,"nextAfter":null,"bytes":18})");
  EXPECT_EQ(
      answer(
          rig_.post(handle_kv_list, R"({"namespace":"n","limit":1,"keysOnly":true,"includeExpired":true})")),
      R"(200 {"rows":[{"key":"a","version":1,"expiresAt":null,"updatedAt":"2001-09-09T01:46:40.000500Z","expired":false}],)"
      R"("truncated":true,"nextAfter":"a","bytes":1})");
}

TEST_F(KvConsole, CountsNamespaces) {
  put("b", "k", std::nullopt);
  put("a", "k", std::nullopt);
  put("a", "l", 1);
  EXPECT_EQ(answer(rig_.call(handle_kv_namespaces, {})),
            R"(200 {"namespaces":[{"namespace":"a","keys":2},{"namespace":"b","keys":1}]})");
}

TEST_F(KvConsole, AnswersWhatTheBarrierIsRefusedWith) {
  const auto sent = rig_.call(handle_kv_namespaces, {});
  rig_.broker.barriers.back()(tl::unexpected(broker::Refusal{"retry", "x"}));
  EXPECT_EQ(answer_of(sent), R"(503 {"error":"kv_unavailable","reason":"kv_retry","detail":"x"})");
}

TEST_F(KvConsole, ReadsItsQuery) {
  const auto query =
      parse_kv_list(R"({"namespace":"n","prefix":7,"after":null,"limit":5000,"keysOnly":null,"other":1})");
  ASSERT_TRUE(query);
  EXPECT_EQ(query->prefix, "7");
  EXPECT_EQ(query->after, "");
  EXPECT_EQ(query->limit, 1000U);
  EXPECT_TRUE(query->values);
  EXPECT_FALSE(query->include_expired);
}

TEST_F(KvConsole, RefusesQueryStrings) {
  http::Request request;
  request.query = "a";
  request.body = R"({"namespace":"n"})";
  for (const RouteHandler handler : {handle_kv_list, handle_kv_namespaces})
    EXPECT_THAT(answer_of(rig_.call(handler, request)), ::testing::HasSubstr("kv_no_query_string"));
  EXPECT_TRUE(rig_.broker.barriers.empty());
}

}  // namespace
}  // namespace queen::api
