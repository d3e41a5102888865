// The broker as the sink's port: classes of refusals, and who keeps the bytes of a record alive.
#include <gtest/gtest.h>

#include "sink/broker_adapter.h"
#include "sink/health.h"
#include "sink/memory_budget.h"
#include "sink/pace.h"

namespace queen::sink {
namespace {

TEST(BrokerAdapter, RefusalsCarryTheStatusOfThePublicRoute) {
  struct Case {
    const char* code;
    int status;
    bool retriable;
  };
  for (const Case& one :
       {Case{"retry", 503, true}, Case{"timeout", 503, true}, Case{"no_leader", 503, true},
        Case{"overloaded", 429, true}, Case{"internal", 500, true}, Case{"storage_full", 507, true},
        Case{"kv_bad_namespace", 400, false}, Case{"name_too_long", 413, false}}) {
    const CallError error = call_error_of({.code = one.code, .error = "why"});
    EXPECT_EQ(error.cls, CallClass::status);
    EXPECT_EQ(error.status, one.status) << one.code;
    EXPECT_EQ(error.retriable, one.retriable) << one.code;
  }
}

TEST(BrokerAdapter, RecordHoldsOnlyTheBuffersOfItsViews) {
  auto first = std::make_shared<const Bytes>("id-1{\"a\":1}");
  auto second = std::make_shared<const Bytes>("id-2{\"a\":2}");
  broker::Messages messages;
  messages.buffers = {first, second};
  broker::Message one;
  one.offset = 7;
  one.ts_us = 9;
  one.transaction_id = std::string_view(*first).substr(0, 4);
  one.payload = std::string_view(*first).substr(4);
  messages.messages.push_back(one);
  std::vector<FetchedRecord> records = records_of(messages);
  messages = {};
  second.reset();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].owner.get(), static_cast<const void*>(first.get()));
  EXPECT_EQ(records[0].payload, "{\"a\":1}");
  EXPECT_EQ(records[0].payload_kind, lake::Payload::json);
}

TEST(BrokerAdapter, NullEncryptedAndForeignTextsAreTold) {
  broker::Messages messages;
  broker::Message null;
  null.transaction_id = "outside of any buffer";
  null.null_payload = true;
  broker::Message sealed;
  sealed.transaction_id = "id";
  sealed.payload = "{\"encrypted\":1}";
  sealed.encrypted = true;
  messages.messages = {null, sealed};
  const auto records = records_of(messages);
  EXPECT_EQ(records[0].payload_kind, lake::Payload::null);
  EXPECT_EQ(records[0].transaction_id, "outside of any buffer");
  EXPECT_NE(records[0].transaction_id.data(), null.transaction_id.data())
      << "copied, so that it outlives the answer";
  EXPECT_EQ(records[1].payload_kind, lake::Payload::raw_bytes);
  EXPECT_EQ(records[1].payload, "{\"encrypted\":1}");
}

TEST(BrokerAdapter, AnAnswerEndsBehindAWholeAppend) {
  const auto left = [](std::vector<std::int64_t> stamps, std::uint64_t high_watermark) {
    std::vector<FetchedRecord> records;
    for (const std::int64_t ts : stamps) {
      FetchedRecord& record = records.emplace_back();
      record.offset = records.size() - 1;
      record.ts = ts;
    }
    return whole_appends(std::move(records), high_watermark).size();
  };
  EXPECT_EQ(left({5, 5, 6, 6}, 5), 2U);
  EXPECT_EQ(left({5, 6, 7}, 9), 2U);
  EXPECT_EQ(left({5, 5, 6, 6}, 4), 4U) << "nothing follows";
  EXPECT_EQ(left({5, 5, 5}, 9), 3U) << "one append alone";
  EXPECT_EQ(left({}, 9), 0U);
}

TEST(Backoff, DoublesToAMinuteAndObeysRetryAfterExactly) {
  SeededRandom random(3);
  Backoff backoff;
  for (const std::int64_t step : {1, 2, 4, 8, 16, 32, 60, 60}) {
    const std::int64_t wait = backoff.next_us(random, std::nullopt);
    EXPECT_GE(wait, step * 750'000);
    EXPECT_LE(wait, step * 1'250'000);
  }
  EXPECT_EQ(backoff.next_us(random, 7), 7);
}

TEST(MemoryBudget, OnlyTheLargestClosesAndReadsAboveTheLimit) {
  MemoryBudget budget(100);
  budget.report("t/a", 60);
  budget.report("u/a", 40);
  EXPECT_FALSE(budget.must_close("t/a"));
  budget.report("u/a", 61);
  EXPECT_TRUE(budget.must_close("u/a"));
  EXPECT_FALSE(budget.must_close("t/a"));
  EXPECT_TRUE(budget.may_read("u/a"));
  EXPECT_FALSE(budget.may_read("t/a"));
  budget.leave("u/a");
  EXPECT_EQ(budget.total(), 60U);
  EXPECT_TRUE(budget.may_read("t/a"));
}

TEST(Health, RedIsStrictlyAboveThreeWindowsAndThirtySeconds) {
  Health health(20'000'000);
  health.begin("b", 0);
  EXPECT_TRUE(health.verdict(60'000'000).ok) << "a queue without a report counts from its start";
  EXPECT_FALSE(health.verdict(60'000'001).ok);
  health.begin("a", 60'000'000);
  health.report("a", 50'000'000, 60'000'000);
  const HealthVerdict red = health.verdict(75'000'000);
  EXPECT_EQ(red.queue, "a");
  EXPECT_EQ(red.stale_us, 65'000'000);
  EXPECT_EQ(red.limit_us, 60'000'000);
  health.begin("a", 75'000'000);
  EXPECT_EQ(health.verdict(75'000'000).queue, "a") << "starting again does not make it fresh";
  health.forget("a");
  health.report("b", 0, 75'000'000);
  health.report("never-begun", 1'000'000'000, 75'000'000);
  EXPECT_TRUE(health.verdict(75'000'000).ok);
  EXPECT_EQ(health.verdict(75'000'000).queues, 1U);
  EXPECT_FALSE(Health(1).verdict(0).limit_us != 30'000'000);
}

}  // namespace
}  // namespace queen::sink
