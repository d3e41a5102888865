#include "s3/memory_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "s3/digests.h"

namespace queen::s3 {
namespace {

using testing::ElementsAre;
using Kind = MemoryStore::Kind;

class MemoryStoreTest : public testing::Test {
 protected:
  std::optional<Outcome<PutDone>>& put(std::string key, Bytes body, std::function<void()> between = nullptr) {
    auto& slot = puts_.emplace_back(std::make_unique<std::optional<Outcome<PutDone>>>());
    store_.put(std::move(key), std::make_shared<const Bytes>(std::move(body)), {"t", std::move(between)},
               [to = slot.get()](Outcome<PutDone> outcome) { *to = std::move(outcome); });
    return *slot;
  }
  Outcome<std::optional<Bytes>> get(std::string key, std::uint64_t bytes_max = 1'000) {
    Outcome<std::optional<Bytes>> out;
    store_.get(std::move(key), bytes_max, [&](auto outcome) { out = std::move(outcome); });
    executor_.run_ready();
    return out;
  }
  std::vector<std::string> list(std::string prefix, std::string after, int max_keys, bool truncated) {
    Outcome<Listing> out;
    store_.list(std::move(prefix), std::move(after), max_keys,
                [&](auto outcome) { out = std::move(outcome); });
    executor_.run_ready();
    EXPECT_EQ(out.value->truncated, truncated);
    return out.value->keys;
  }
  S3Error error(int status) {
    S3Error made;
    made.failure = Failure::status;
    made.status = status;
    return made;
  }

  ManualClock clock_;
  ManualExecutor executor_{clock_};
  MemoryStore store_{executor_};
  std::vector<std::unique_ptr<std::optional<Outcome<PutDone>>>> puts_;
};

TEST_F(MemoryStoreTest, KeepsObjectsAndRecordsEveryPut) {
  auto& done = put("a", "1");
  EXPECT_FALSE(done);
  executor_.run_ready();
  ASSERT_TRUE(done->ok());
  EXPECT_EQ(get("a").value.value(), "1");
  EXPECT_FALSE(get("b").value.value().has_value());
  ASSERT_EQ(store_.puts().size(), 1U);
  EXPECT_EQ(store_.puts()[0].sha256_hex, sha256_hex("1"));
  EXPECT_EQ(get("a", 0).error->failure, Failure::body);
}

TEST_F(MemoryStoreTest, ListsInKeyOrderAfterACursor) {
  for (const char* key : {"p/c", "p/a", "p/b", "q"}) store_.insert(key, "");
  EXPECT_THAT(list("p/", "", 2, true), ElementsAre("p/a", "p/b"));
  EXPECT_THAT(list("p/", "p/b", 2, false), ElementsAre("p/c"));
  EXPECT_THAT(list("p/", "a", 9, false), ElementsAre("p/a", "p/b", "p/c"));
  EXPECT_THAT(list("p/a", "p/a", 9, false), ElementsAre());
  EXPECT_THAT(list("", "", 9, false), ElementsAre("p/a", "p/b", "p/c", "q"));
}

TEST_F(MemoryStoreTest, FailsTheNextOfAKindWithOrWithoutEffect) {
  store_.fail_next(Kind::put, 1, error(500));
  store_.fail_next(Kind::put, 1, error(503), MemoryStore::Effect::happened);
  auto& first = put("a", "1");
  auto& second = put("b", "2");
  auto& third = put("c", "3");
  executor_.run_ready();
  EXPECT_EQ(first->error->status, 500);
  EXPECT_EQ(second->error->status, 503);
  EXPECT_TRUE(third->ok());
  EXPECT_FALSE(store_.object("a"));
  EXPECT_EQ(store_.object("b"), "2");
}

TEST_F(MemoryStoreTest, RefusesPutsWhileTold) {
  store_.refuse_puts(403);
  auto& refused = put("a", "1");
  executor_.run_ready();
  EXPECT_EQ(refused->error->status, 403);
  EXPECT_FALSE(refused->error->retriable);
  store_.refuse_puts(std::nullopt);
  auto& taken = put("a", "1");
  executor_.run_ready();
  EXPECT_TRUE(taken->ok());
}

TEST_F(MemoryStoreTest, DelaysByVirtualTime) {
  store_.delay(1'000);
  auto& done = put("a", "1");
  executor_.run_for(999);
  EXPECT_FALSE(done);
  EXPECT_FALSE(store_.object("a"));
  executor_.run_for(1);
  EXPECT_TRUE(done->ok());
}

TEST_F(MemoryStoreTest, HangsUntilReleased) {
  store_.hang();
  auto& done = put("a", "1");
  executor_.run_for(1'000'000);
  EXPECT_FALSE(done);
  EXPECT_EQ(store_.in_flight(), 1U);
  store_.release();
  executor_.run_ready();
  EXPECT_TRUE(done->ok());
  EXPECT_EQ(store_.in_flight(), 0U);
}

TEST_F(MemoryStoreTest, CancelEndsAndRefusesUntilResume) {
  store_.hang();
  auto& running = put("a", "1");
  executor_.run_ready();
  store_.cancel();
  store_.cancel();
  auto& refused = put("b", "2");
  executor_.run_ready();
  EXPECT_EQ(running->error->failure, Failure::cancelled);
  EXPECT_EQ(refused->error->failure, Failure::cancelled);
  store_.release();
  store_.resume();
  auto& taken = put("c", "3");
  executor_.run_ready();
  EXPECT_TRUE(taken->ok());
  EXPECT_EQ(store_.objects().size(), 1U);
  EXPECT_EQ(store_.calls(Kind::put), 3U);
}

TEST_F(MemoryStoreTest, CancelOfKeysEndsTheirRequestsAndNoOthers) {
  store_.hang();
  auto& mine = put("a/1", "1");
  auto& other = put("ab/1", "2");
  executor_.run_ready();
  store_.cancel_keys({"a/", "side/a/"});
  executor_.run_ready();
  EXPECT_EQ(mine->error->failure, Failure::cancelled);
  EXPECT_EQ(store_.in_flight(), 1U);
  store_.release();
  executor_.run_ready();
  EXPECT_TRUE(other->ok());
  EXPECT_EQ(store_.objects().size(), 1U);
}

TEST_F(MemoryStoreTest, ACancelledPutMayLandAllTheSame) {
  store_.cancelled_puts_land(true);
  store_.delay(1'000);
  auto& done = put("a", "1");
  store_.cancel();
  executor_.run_ready();
  EXPECT_EQ(done->error->failure, Failure::cancelled);
  EXPECT_FALSE(store_.object("a"));
  executor_.run_for(1'000);
  EXPECT_EQ(store_.object("a"), "1");
}

TEST_F(MemoryStoreTest, LiesOnDemand) {
  store_.drop_next_puts(1);
  auto& dropped = put("a", "1");
  executor_.run_ready();
  EXPECT_TRUE(dropped->ok());
  EXPECT_FALSE(store_.object("a"));
  EXPECT_TRUE(store_.puts().at(0).dropped);
  store_.insert("b", "2");
  store_.hide_next_reads(2);
  EXPECT_FALSE(get("b").value.value().has_value());
  EXPECT_TRUE(list("", "", 9, false).empty());
  EXPECT_EQ(get("b").value.value(), "2");
}

TEST_F(MemoryStoreTest, CallsTheHookBetweenPartsOnly) {
  store_.multipart_threshold(1 << 20);
  int calls = 0;
  put("a", Bytes(32 << 20, 'x'), [&] { ++calls; });
  put("b", Bytes(1 << 20, 'x'), [&] { ++calls; });
  executor_.run_ready();
  EXPECT_EQ(calls, 1);
}

TEST_F(MemoryStoreTest, WorkLeftOnTheExecutorOutlivesTheStore) {
  bool ended = false;
  {
    MemoryStore store(executor_);
    store.head("a", [&](const Outcome<std::optional<std::uint64_t>>& outcome) {
      ended = outcome.error.has_value() && outcome.error->failure == Failure::cancelled;
    });
  }
  executor_.run_ready();
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace queen::s3
