// What bounds the way from command to entry, seen from outside while the log's syncs are held.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "broker/broker.h"
#include "disk/gated_disk.h"

namespace queen::broker {
namespace {

class PlanningTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/queen-planning-XXXXXX";
    directory_ = mkdtemp(name);
    settings_.directory = directory_;
    settings_.disk_high_pct = 100;
    settings_.logs.prealloc_bytes = 0;
    settings_.logs.precreate = false;
    settings_.kv_sweep_us = 3'600'000'000;
  }
  void TearDown() override {
    gate_.open();
    broker_.reset();
    std::filesystem::remove_all(directory_);
  }
  void open() {
    auto opened = Broker::open(settings_, disk_, clock_, random_, Logger(null_log(), "rsm"), nullptr);
    ASSERT_TRUE(opened) << opened.error().what;
    broker_ = std::move(*opened);
    const std::uintmax_t before = log_bytes();
    put("k0");
    ASSERT_TRUE(eventually([this] { return answered_ == 1; }));
    log_bytes_ = log_bytes();
    entry_bytes_ = log_bytes_ - before;
    gate_.shut();
    written_ = gate_.writes();
  }
  void put(const std::string& key, std::int64_t deadline_mono_us = 0) {
    machine::KvOp op;
    op.kind = machine::KvKind::put;
    op.ns = "ns";
    op.key = key;
    op.value = "1";
    machine::Command command{std::string(kDefaultTenant), make_uuid_v7(clock_.wall_us(), random_),
                             machine::KvCommand{{op}}, deadline_mono_us};
    broker_->submit(std::move(command), [this](const Answer<machine::Outcome>& outcome) {
      if (!outcome) {
        const std::lock_guard held(codes_mutex_);
        ++codes_[outcome.error().code];
        ++refused_;
      }
      ++answered_;
    });
  }
  // Of the system log, where KV entries go.
  std::uintmax_t log_bytes() const {
    const std::string file = directory_ + "/qlog/q0/r00000001.qlog";
    return std::filesystem::exists(file) ? std::filesystem::file_size(file) : qlog::kFileHeaderBytes;
  }
  template <class Condition>
  static bool eventually(const Condition& condition) {
    for (int i = 0; i < 10'000 && !condition(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return condition();
  }

  SystemClock clock_;
  SystemRandom random_;
  std::unique_ptr<disk::Disk> real_ = disk::make_posix_disk();
  disk::SyncGate gate_;
  disk::GatedDisk disk_{*real_, gate_};
  Settings settings_;
  std::string directory_;
  std::unique_ptr<Broker> broker_;
  std::atomic<int> answered_{0}, refused_{0};
  std::mutex codes_mutex_;  // guards codes_
  std::map<std::string, int> codes_;
  std::size_t written_ = 0;
  std::uintmax_t log_bytes_ = 0, entry_bytes_ = 0;
};

// PL-2: what is in flight is bounded, although the log would take more.
TEST_F(PlanningTest, NoMoreEntriesThanThePipelineAreInFlight) {
  settings_.pipeline = 2;
  settings_.batch_commands_max = 1;
  open();
  for (int i = 0; i < 10; ++i) put("k" + std::to_string(i));
  // All these entries are of one size, whatever groups they were written in.
  EXPECT_TRUE(eventually([this] { return log_bytes() - log_bytes_ >= 2 * entry_bytes_; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(log_bytes() - log_bytes_, 2 * entry_bytes_);
  EXPECT_EQ(answered_, 1) << "nothing is answered before its sync";
  gate_.open();
  EXPECT_TRUE(eventually([this] { return answered_ == 11; }));
  EXPECT_EQ(refused_, 0);
}

// PL-2: what waits while entries are in flight is planned into one.
TEST_F(PlanningTest, WhatWaitsIsPlannedIntoOneEntry) {
  settings_.pipeline = 1;
  open();
  put("a");
  ASSERT_TRUE(gate_.wait_for_writes(written_ + 1));
  for (int i = 0; i < 20; ++i) put("k" + std::to_string(i));
  const std::uint64_t before = broker_->health().applied;
  gate_.open();
  EXPECT_TRUE(eventually([this] { return answered_ == 22; }));
  EXPECT_EQ(broker_->health().applied, before + 2);
}

// PL-13, section 24: a full queue makes callers wait and refuses nobody at once.
TEST_F(PlanningTest, AFullCommandQueueMakesCallersWait) {
  settings_.pipeline = 1;
  settings_.batch_commands_max = 1;
  settings_.command_queue_depth = 4;
  open();
  for (int i = 0; i < 20; ++i) put("k" + std::to_string(i));
  EXPECT_EQ(answered_, 1);
  gate_.open();
  EXPECT_TRUE(eventually([this] { return answered_ == 21; }));
  EXPECT_EQ(refused_, 0);
}

// Section 24, api-messaging.md 1.4: as many again as the depth may wait for room, and the next are told so.
TEST_F(PlanningTest, BeyondTwiceTheDepthCallersAreRefusedAtOnce) {
  settings_.pipeline = 1;
  settings_.batch_commands_max = 1;
  settings_.command_queue_depth = 4;
  open();
  for (int i = 0; i < 30; ++i) put("k" + std::to_string(i), clock_.mono_us() + 60'000'000);
  EXPECT_GE(refused_, 30 - 2 * 4 - 2);  // one is in flight, and one may be with the planner
  EXPECT_LE(refused_, 30 - 2 * 4);
  EXPECT_EQ(codes_, (std::map<std::string, int>{{"overloaded", refused_}}));
  gate_.open();
  EXPECT_TRUE(eventually([this] { return answered_ == 31; }));
  EXPECT_EQ(codes_.size(), 1U);
}

// Section 24: who waits for room waits within its own deadline, also while the disk holds everything up.
TEST_F(PlanningTest, CommandsBeyondTheDepthEndAtTheirOwnDeadlines) {
  settings_.pipeline = 1;
  settings_.batch_commands_max = 1;
  settings_.command_queue_depth = 4;
  open();
  put("held");
  ASSERT_TRUE(gate_.wait_for_writes(written_ + 1));
  for (int i = 0; i < 8; ++i) put("k" + std::to_string(i), clock_.mono_us() + 300'000);
  EXPECT_EQ(refused_, 0);
  put("patient", clock_.mono_us() + 60'000'000);
  ASSERT_TRUE(eventually([this] { return refused_ >= 7; }));
  EXPECT_EQ(answered_, 1 + refused_) << "nothing is answered before its sync";
  put("new", clock_.mono_us() + 60'000'000);  // there is room again
  gate_.open();
  ASSERT_TRUE(eventually([this] { return answered_ == 12; }));
  EXPECT_GE(codes_["timeout"], 7);
}

// HD-28: a stop while there are no descriptors ends, and what is not durable is not acknowledged.
TEST_F(PlanningTest, AStopWithoutDescriptorsEndsAndAcknowledgesNothingThatIsNotDurable) {
  settings_.logs.fd_cache = 0;  // every write opens its file
  settings_.logs.pause = [](std::int64_t us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); };
  open();
  gate_.open();
  put("before");
  ASSERT_TRUE(eventually([this] { return answered_ == 2; }));
  gate_.take_descriptors();
  put("without");
  ASSERT_TRUE(eventually([this] { return gate_.refused() > 0; }));
  const std::int64_t began = clock_.mono_us();
  broker_->stop();
  EXPECT_LT(clock_.mono_us() - began, 15'000'000);
  EXPECT_EQ(answered_, 3);
  EXPECT_EQ(codes_, (std::map<std::string, int>{{"retry", 1}}));
  EXPECT_EQ(broker_->health().stopped_cause, "");
  broker_.reset();
  gate_.give_descriptors();
  auto opened = Broker::open(settings_, disk_, clock_, random_, Logger(null_log(), "rsm"), nullptr);
  ASSERT_TRUE(opened) << opened.error().what;
  broker_ = std::move(*opened);
  EXPECT_EQ(broker_->health().applied, 2U);
}

// CE-5, W-2: near its deadline a pop ends empty, so that it cannot claim for an answer that comes too late.
TEST_F(PlanningTest, APopNearItsDeadlineIsAnsweredEmptyAndClaimsNothing) {
  open();
  gate_.open();
  machine::PopCommand pop;
  pop.queue = "q";
  pop.group = "g";
  pop.lease_id = make_uuid_v7(clock_.wall_us(), random_);
  pop.queue_uuid = make_uuid_v7(clock_.wall_us(), random_);
  pop.group_uuid = make_uuid_v7(clock_.wall_us(), random_);
  std::atomic<std::int64_t> ended_at{0};
  std::atomic<std::size_t> parts{99};
  const std::int64_t deadline = clock_.mono_us() + 800'000;
  broker_->pop({std::string(kDefaultTenant), make_uuid_v7(clock_.wall_us(), random_), pop}, true, deadline,
               [&](const Answer<PopAnswer>& answer) {
                 parts = answer ? answer->parts.size() : 99;
                 ended_at = clock_.mono_us();
               });
  ASSERT_TRUE(eventually([&] { return ended_at != 0; }));
  EXPECT_EQ(parts, 0U);
  EXPECT_LT(ended_at, deadline - 50'000);
}

}  // namespace
}  // namespace queen::broker
