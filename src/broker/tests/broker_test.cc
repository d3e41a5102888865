// The broker of one node over real files: what was answered is there after a restart, and who waits is woken.
#include "broker/broker.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "broker/tests/waiting.h"

namespace queen::broker {
namespace {

class BrokerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/queen-broker-XXXXXX";
    directory_ = mkdtemp(name);
    open();
  }
  void TearDown() override {
    broker_.reset();
    std::filesystem::remove_all(directory_);
  }
  void open() {
    Settings settings;
    settings.directory = directory_;
    settings.disk_high_pct = 100;
    settings.durable_every_us = 50'000;
    auto opened = Broker::open(settings, *disk_, clock_, random_, Logger(null_log(), "rsm"), nullptr);
    ASSERT_TRUE(opened) << opened.error().what;
    broker_ = std::move(*opened);
  }
  void restart() {
    broker_->stop();
    broker_.reset();
    open();
  }

  machine::Command command(auto body) {
    return {std::string(kDefaultTenant), make_uuid_v7(clock_.wall_us(), random_), std::move(body)};
  }

  machine::Command push_command(const std::string& partition, const std::vector<std::string>& ids) {
    machine::PushBatch batch;
    batch.queue = "orders";
    batch.partition = partition;
    auto stored = std::make_shared<machine::StoredPayload>();
    for (const auto& id : ids) {
      batch.hashes += xxh3_128(id).view();
      qlog::MessageFrame frame;
      frame.message_id = make_uuid_v7(clock_.wall_us(), random_);
      frame.transaction_id = id;
      const std::string payload = "{\"id\":\"" + id + "\",\"total\":42.00}";
      frame.payload = payload;
      qlog::append_frame(batch.frames, frame);
      batch.frame_ends.push_back(static_cast<std::uint32_t>(batch.frames.size()));
    }
    stored->bytes = batch.frames;
    stored->raw_bytes = static_cast<std::uint32_t>(batch.frames.size());
    batch.stored = std::move(stored);
    machine::PushCommand push;
    push.batches.push_back(std::move(batch));
    return command(std::move(push));
  }
  PushAnswer push(const std::string& partition, const std::vector<std::string>& ids) {
    Waiting<Answer<PushAnswer>> waiting;
    broker_->push(push_command(partition, ids), waiting.callback());
    auto answer = waiting.get();
    EXPECT_TRUE(answer) << answer.error().code;
    return std::move(*answer);
  }

  machine::PopCommand pop_body(const std::string& group, std::int32_t lease_seconds = 60) {
    machine::PopCommand pop;
    pop.queue = "orders";
    pop.group = group;
    pop.partitions_max = 64;
    pop.lease_seconds = lease_seconds;
    pop.subscription.mode = machine::Subscription::Mode::all;
    pop.lease_id = make_uuid_v7(clock_.wall_us(), random_);
    pop.queue_uuid = make_uuid_v7(clock_.wall_us(), random_);
    pop.group_uuid = make_uuid_v7(clock_.wall_us(), random_);
    return pop;
  }
  Answer<PopAnswer> pop(const std::string& group, bool wait = false, std::int32_t lease_seconds = 60) {
    Waiting<Answer<PopAnswer>> waiting;
    broker_->pop(command(pop_body(group, lease_seconds)), wait, clock_.mono_us() + 10'000'000,
                 waiting.callback());
    return waiting.get();
  }
  static std::vector<std::string> ids_of(const PopAnswer& answer) {
    std::vector<std::string> out;
    for (const auto& part : answer.parts) {
      for (const auto& message : part.messages.messages) out.emplace_back(message.transaction_id);
    }
    return out;
  }
  Answer<machine::Outcome> ack(const std::string& group, const PopAnswer& answer, machine::AckStatus status) {
    machine::AckCommand body;
    body.group = group;
    for (const auto& part : answer.parts) {
      for (const auto& message : part.messages.messages) {
        machine::AckItem item;
        item.partition_id = std::to_string(part.claim.pid.value);
        item.transaction_id = message.transaction_id;
        item.hash = xxh3_128(message.transaction_id);
        item.status = status;
        item.dlq_id = make_uuid_v7(clock_.wall_us(), random_);
        body.items.push_back(item);
      }
    }
    Waiting<Answer<machine::Outcome>> waiting;
    broker_->ack(command(std::move(body)), waiting.callback());
    return waiting.get();
  }

  void configure(std::map<std::string, std::optional<std::int64_t>> options) {
    machine::ConfigureCommand body;
    body.queue = "orders";
    body.integers = std::move(options);
    body.queue_uuid = make_uuid_v7(clock_.wall_us(), random_);
    Waiting<Answer<machine::Outcome>> waiting;
    broker_->submit(command(std::move(body)), waiting.callback());
    EXPECT_TRUE(waiting.get());
  }

  // Flips a bit of the stored message `id`.
  void damage(const std::string& id) {
    const std::string text = "{\"id\":\"" + id + "\"";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_ + "/qlog")) {
      if (entry.path().extension() != ".qlog") continue;
      std::fstream file(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      const auto at = bytes.find(text);
      if (at == std::string::npos) continue;
      file.clear();
      file.seekp(static_cast<std::streamoff>(at));
      file.put('[');
      return;
    }
    FAIL() << id << " is in no log";
  }

  std::string directory_;
  std::unique_ptr<disk::Disk> disk_ = disk::make_posix_disk();
  SystemClock clock_;
  SystemRandom random_;
  std::unique_ptr<Broker> broker_;
};

using Status = PushItemAnswer::Status;

TEST_F(BrokerTest, AnsweredPushesSurviveARestartAndKeepTheirOffsets) {
  const auto first = push("a", {"1", "2"});
  EXPECT_EQ(first.batches[0][1].offset, 1U);
  restart();
  const auto again = push("a", {"2", "3"});
  EXPECT_EQ(again.batches[0][0].status, Status::duplicate);
  EXPECT_EQ(again.batches[0][0].offset, 1U);
  ASSERT_TRUE(again.batches[0][0].message_id);
  EXPECT_EQ(again.batches[0][1].status, Status::queued);
  EXPECT_EQ(again.batches[0][1].offset, 2U);
  const std::vector<FetchEntry> entries = {{"orders", "a", 0, 1 << 20}};
  const auto fetched = broker_->fetch(std::string(kDefaultTenant), entries);
  ASSERT_TRUE(fetched);
  ASSERT_EQ((*fetched)[0].messages.messages.size(), 3U);
  EXPECT_EQ((*fetched)[0].messages.messages[2].payload, R"({"id":"3","total":42.00})");
  EXPECT_EQ((*fetched)[0].high_watermark, 3U);
}

// CR-5, RD-6: damage is not taken for a message that is gone.
TEST_F(BrokerTest, ADuplicateOfADamagedMessageIsAnInternalErrorAndItsNewNeighboursAreStored) {
  push("a", {"1"});
  push("a", {"2"});
  damage("1");
  Waiting<Answer<PushAnswer>> waiting;
  broker_->push(push_command("a", {"1", "3"}), waiting.callback());
  const auto answer = waiting.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, "internal");
  const auto good = push("a", {"2", "3"});
  EXPECT_EQ(good.batches[0][0].status, Status::duplicate);
  EXPECT_TRUE(good.batches[0][0].message_id);
  EXPECT_EQ(good.batches[0][1].status, Status::duplicate);
  EXPECT_EQ(good.batches[0][1].offset, 2U);
}

// CR-5, L-11: what stands before the damage is handed out and settled, and nothing is skipped.
TEST_F(BrokerTest, CommitOnDeliverySettlesUpToADamagedMessageAndNoFurther) {
  for (const char* id : {"1", "2", "3"}) push("a", {id});
  damage("2");
  const auto take = [this] {
    auto body = pop_body("g");
    body.commit_on_delivery = true;
    Waiting<Answer<PopAnswer>> waiting;
    broker_->pop(command(std::move(body)), false, clock_.mono_us() + 10'000'000, waiting.callback());
    return waiting.get();
  };
  EXPECT_EQ(ids_of(*take()), std::vector<std::string>{"1"});
  for (int i = 0; i < 2; ++i) {
    const auto refused = take();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, "internal");
  }
}

// A consumer that commits on delivery lets others have the partition as soon as it is answered.
TEST_F(BrokerTest, CommitOnDeliveryLeavesNoLeaseAndWakesWhoWaits) {
  push("a", {"1", "2"});
  const auto take = [this](bool wait) {
    auto body = pop_body("g");
    body.commit_on_delivery = true;
    body.batch = 1;
    Waiting<Answer<PopAnswer>> waiting;
    broker_->pop(command(std::move(body)), wait, clock_.mono_us() + 10'000'000, waiting.callback());
    return waiting.get();
  };
  std::vector<std::string> seen;
  std::thread other([&] { seen = ids_of(*take(true)); });
  const auto mine = ids_of(*take(true));
  other.join();
  seen.insert(seen.end(), mine.begin(), mine.end());
  std::ranges::sort(seen);
  EXPECT_EQ(seen, (std::vector<std::string>{"1", "2"}));
}

TEST_F(BrokerTest, LeasedMessagesStayLeasedOverARestartAndAckedOnesStayAcked) {
  push("a", {"1", "2"});
  const auto popped = pop("g");
  ASSERT_TRUE(popped);
  EXPECT_EQ(ids_of(*popped), (std::vector<std::string>{"1", "2"}));
  restart();
  EXPECT_TRUE(ids_of(*pop("g")).empty());
  const auto acked = ack("g", *popped, machine::AckStatus::completed);
  ASSERT_TRUE(acked);
  for (const auto& item : std::get<machine::AckOutcome>(acked->body).items)
    EXPECT_TRUE(item.success) << item.error;
  restart();
  EXPECT_TRUE(ids_of(*pop("g")).empty());
  EXPECT_EQ(ids_of(*pop("other")), (std::vector<std::string>{"1", "2"}));
}

TEST_F(BrokerTest, ParkedPopIsWokenByAPush) {
  Waiting<Answer<PopAnswer>> waiting;
  broker_->pop(command(pop_body("g")), true, clock_.mono_us() + 10'000'000, waiting.callback());
  std::this_thread::sleep_for(
      std::chrono::milliseconds(50));  // so that it is parked; either way it must be answered
  push("new", {"x"});
  const auto answer = waiting.get();
  ASSERT_TRUE(answer);
  EXPECT_EQ(ids_of(*answer), std::vector<std::string>{"x"});
}

TEST_F(BrokerTest, ParkedPopIsWokenWhenALeaseEnds) {
  push("a", {"x"});
  EXPECT_EQ(ids_of(*pop("g", false, 1)), std::vector<std::string>{"x"});
  const auto again = pop("g", true);
  ASSERT_TRUE(again);
  ASSERT_EQ(ids_of(*again), std::vector<std::string>{"x"});
  EXPECT_EQ(again->parts[0].claim.delivery_attempt, 2U);
}

// W-4: parked before the claim, so that nothing but the claim's own entry tells it of the lease. HD-38.
TEST_F(BrokerTest, PopParkedBeforeAClaimIsWokenWhenItsLeaseEnds) {
  configure({{"delayedProcessing", 1}});
  push("a", {"x"});
  Waiting<Answer<PopAnswer>> first, second;
  for (Waiting<Answer<PopAnswer>>* each : {&first, &second})
    broker_->pop(command(pop_body("g", 1)), true, clock_.mono_us() + 10'000'000, each->callback());
  EXPECT_EQ(ids_of(*first.get()).size() + ids_of(*second.get()).size(), 2U);
  const auto expired = broker_->health().expired_leases;
  ASSERT_EQ(expired.size(), 1U);
  EXPECT_EQ(expired[0].queue, "orders");
  EXPECT_EQ(expired[0].group, "g");
  EXPECT_EQ(expired[0].count, 1U);
}

// W-4: settings that let go of messages wake those who wait for them.
TEST_F(BrokerTest, ParkedPopIsWokenWhenADelayIsLowered) {
  configure({{"delayedProcessing", 3'600}});
  push("a", {"x"});
  Waiting<Answer<PopAnswer>> waiting;
  broker_->pop(command(pop_body("g")), true, clock_.mono_us() + 10'000'000, waiting.callback());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // parked; either way it must be answered
  configure({{"delayedProcessing", 0}});
  EXPECT_EQ(ids_of(*waiting.get()), std::vector<std::string>{"x"});
}

// W-5, S-8: discovery reads over queues, and what it claimed can be given back.
TEST_F(BrokerTest, DiscoveryReadsWhatItClaimed) {
  push("a", {"x", "y"});
  machine::PopCommand body = pop_body("g");
  body.queue.clear();
  body.labels = machine::PopLabels{"orders", std::nullopt};
  Waiting<Answer<PopAnswer>> waiting;
  broker_->pop(command(body), true, clock_.mono_us() + 10'000'000, waiting.callback());
  EXPECT_EQ(ids_of(*waiting.get()), (std::vector<std::string>{"x", "y"}));
}

// 8.2, O-6
TEST_F(BrokerTest, OffsetsByTimeAreThoseOfTheStamps) {
  push("a", {"x"});
  push("a", {"y", "z"});
  FetchEntry all{"orders", "a", 0, 1 << 20};
  const auto fetched = broker_->fetch(std::string(kDefaultTenant), {&all, 1});
  const auto& messages = fetched->front().messages.messages;
  ASSERT_EQ(messages.size(), 3U);
  const auto at = [&](std::int64_t since, const std::string& queue = "orders",
                      const std::string& partition = "a") {
    OffsetEntry entry{queue, partition, since};
    return broker_->offsets(std::string(kDefaultTenant), {&entry, 1})->front();
  };
  EXPECT_EQ(at(0).offset, 0U);
  EXPECT_EQ(at(0).ts_us, messages[0].ts_us);
  EXPECT_EQ(at(messages[0].ts_us + 1).offset, 1U);
  EXPECT_EQ(at(messages[1].ts_us).ts_us, messages[1].ts_us);
  EXPECT_EQ(at(messages[1].ts_us + 1).offset, std::nullopt);
  EXPECT_EQ(at(messages[1].ts_us + 1).high_watermark, 3U);
  EXPECT_EQ(at(0, "orders", "never").offset, std::nullopt);
  EXPECT_EQ(at(0, "orders", "never").error, "");
  EXPECT_EQ(at(0, "nowhere").error, "UNKNOWN_TOPIC_OR_PARTITION");
}

TEST_F(BrokerTest, CancelledPopAnswersEmptyAndLeavesNoLease) {
  Waiting<Answer<PopAnswer>> waiting;
  const auto id =
      broker_->pop(command(pop_body("g")), true, clock_.mono_us() + 10'000'000, waiting.callback());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  broker_->cancel_pop(id);
  EXPECT_TRUE(ids_of(*waiting.get()).empty());
  push("a", {"x"});
  const auto next = pop("g");
  EXPECT_EQ(ids_of(*next), std::vector<std::string>{"x"});
  EXPECT_EQ(next->parts[0].claim.delivery_attempt, 1U);
}

TEST_F(BrokerTest, HandBackFreesTheMessagesAtOnceAndDoesNotCount) {
  push("a", {"x"});
  machine::Command first = command(pop_body("g"));
  const Uuid lease = std::get<machine::PopCommand>(first.body).lease_id;
  Waiting<Answer<PopAnswer>> waiting;
  broker_->pop(std::move(first), false, clock_.mono_us() + 1'000'000, waiting.callback());
  broker_->hand_back(std::string(kDefaultTenant), "g", lease, *waiting.get());
  const auto again = pop("g", true);
  ASSERT_EQ(ids_of(*again), std::vector<std::string>{"x"});
  EXPECT_EQ(again->parts[0].claim.delivery_attempt, 1U);
}

TEST_F(BrokerTest, DeadLetterKeepsItsPayload) {
  push("a", {"x"});
  const auto popped = pop("g");
  const auto acked = ack("g", *popped, machine::AckStatus::dlq);
  ASSERT_TRUE(acked);
  EXPECT_TRUE(std::get<machine::AckOutcome>(acked->body).items[0].dlq);
  const auto queues = broker_->queues(std::string(kDefaultTenant), QueueDetail::counts);
  ASSERT_EQ(queues.queues.size(), 1U);
  EXPECT_EQ(queues.queues[0].dead_letter, 1);
  EXPECT_EQ(queues.queues[0].pending, 0);
}

TEST_F(BrokerTest, ChangedPagesInCreationOrderAndSafeTimeCoversThem) {
  for (const char* name : {"c", "a", "b"}) push(name, {name});
  std::vector<ChangedEntry> entries(1);
  entries[0].queue = "orders";
  entries[0].limit = 2;
  auto page = broker_->changed(std::string(kDefaultTenant), entries);
  ASSERT_EQ(page.entries[0].partitions.size(), 2U);
  EXPECT_EQ(page.entries[0].partitions[0].name, "c");
  ASSERT_TRUE(page.entries[0].next);
  EXPECT_GE(page.safe_time_us, page.entries[0].partitions[1].last_write_at);
  entries[0].after = *page.entries[0].next;
  page = broker_->changed(std::string(kDefaultTenant), entries);
  ASSERT_EQ(page.entries[0].partitions.size(), 1U);
  EXPECT_EQ(page.entries[0].partitions[0].name, "b");
  EXPECT_FALSE(page.entries[0].next);
  entries[0].after = "junk";
  EXPECT_EQ(broker_->changed(std::string(kDefaultTenant), entries).entries[0].error, "BAD_CURSOR");
}

TEST_F(BrokerTest, SecondProcessOnTheDirectoryIsRefusedAndNamesIt) {
  Settings settings;
  settings.directory = directory_;
  const auto second = Broker::open(settings, *disk_, clock_, random_, Logger(null_log(), "rsm"), nullptr);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().what.find(directory_), std::string::npos);
  EXPECT_NE(second.error().what.find("locked"), std::string::npos);
}

TEST_F(BrokerTest, ManyThreadsPushingKeepEveryPartitionGapless) {
  constexpr int kThreads = 4;
  constexpr int kPushes = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < kPushes; ++i) push("shared", {std::to_string(t) + "-" + std::to_string(i)});
    });
  }
  for (auto& thread : threads) thread.join();
  restart();
  const std::vector<FetchEntry> entries = {{"orders", "shared", 0, 8 << 20}};
  const auto fetched = broker_->fetch(std::string(kDefaultTenant), entries);
  ASSERT_EQ((*fetched)[0].messages.messages.size(), static_cast<std::size_t>(kThreads * kPushes));
  std::uint64_t expected = 0;
  for (const auto& message : (*fetched)[0].messages.messages) EXPECT_EQ(message.offset, expected++);
}

}  // namespace
}  // namespace queen::broker
