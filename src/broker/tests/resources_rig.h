// A broker over real files whose wall clock is moved by hand, and short calls for tests of management reads.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "broker/resources.h"
#include "broker/tests/waiting.h"

namespace queen::broker::testing {

constexpr std::int64_t kSecond = 1'000'000;
inline const std::string kTenant{kDefaultTenant};
inline const std::string kOther = "00000000-0000-0000-0000-0000000000aa";

class ShiftedClock final : public Clock {
 public:
  std::int64_t wall_us() override { return system_.wall_us() + shift_.load(); }
  std::int64_t mono_us() override { return system_.mono_us(); }
  void shift(std::int64_t us) { shift_ += us; }

 private:
  SystemClock system_;
  std::atomic<std::int64_t> shift_{0};
};

class Rig {
 public:
  explicit Rig(bool rows_window = true) {
    char name[] = "/tmp/queen-resources-XXXXXX";
    directory_ = mkdtemp(name);
    settings_.directory = directory_;
    settings_.disk_high_pct = 100;
    settings_.durable_every_us = 50'000;
    settings_.wall_clock = true;
    settings_.retention.interval_us = 5'000;
    settings_.retention.rows_window = rows_window;
    auto opened = Broker::open(settings_, *disk_, clock_, random_, Logger(null_log(), "rsm"), nullptr);
    EXPECT_TRUE(opened) << opened.error().what;
    broker_ = std::move(*opened);
  }
  ~Rig() {
    broker_.reset();
    std::filesystem::remove_all(directory_);
  }
  Broker& broker() { return *broker_; }
  Resources& resources() { return broker_->resources(); }
  std::int64_t wall() { return clock_.wall_us(); }
  std::int64_t soon() { return clock_.mono_us() + 30 * kSecond; }

  void shift(std::int64_t seconds) { clock_.shift(seconds * kSecond); }
  // Time passes, and a whole round of retention does what is due by then.
  void pass(std::int64_t seconds) {
    shift(seconds);
    const std::uint64_t before = broker_->health().retention_rounds;
    const std::int64_t until = clock_.mono_us() + 60 * kSecond;
    while (broker_->health().retention_rounds < before + 2 && clock_.mono_us() < until)
      std::this_thread::yield();
    EXPECT_GE(broker_->health().retention_rounds, before + 2);
  }

  void configure(const std::string& queue, std::map<std::string, std::optional<std::int64_t>> options,
                 std::map<std::string, std::optional<std::string>> texts = {}) {
    machine::ConfigureCommand body;
    body.queue = queue;
    body.integers = std::move(options);
    body.texts = std::move(texts);
    body.queue_uuid = make_uuid_v7(clock_.wall_us(), random_);
    submit(std::move(body));
  }
  // One push of several messages, all with one stamp; the payload of `id` is {"id":"<id>"}.
  void push(const std::string& queue, const std::string& partition, const std::vector<std::string>& ids,
            const std::string& tenant = kTenant) {
    machine::PushBatch batch;
    batch.queue = queue;
    batch.partition = partition;
    for (const auto& id : ids) {
      batch.hashes += xxh3_128(id).view();
      qlog::MessageFrame frame;
      frame.message_id = make_uuid_v7(clock_.wall_us(), random_);
      frame.transaction_id = id;
      const std::string payload = "{\"id\":\"" + id + "\"}";
      frame.payload = payload;
      qlog::append_frame(batch.frames, frame);
      batch.frame_ends.push_back(static_cast<std::uint32_t>(batch.frames.size()));
    }
    auto stored = std::make_shared<machine::StoredPayload>();
    stored->bytes = batch.frames;
    stored->raw_bytes = static_cast<std::uint32_t>(batch.frames.size());
    batch.stored = std::move(stored);
    machine::PushCommand body;
    body.batches.push_back(std::move(batch));
    Waiting<Answer<PushAnswer>> waiting;
    broker_->push(command(std::move(body), tenant), waiting.callback());
    EXPECT_TRUE(waiting.get());
  }
  PopAnswer pop(const std::string& queue, const std::string& group, std::uint32_t batch = 200,
                machine::Subscription::Mode mode = machine::Subscription::Mode::all) {
    machine::PopCommand body;
    body.queue = queue;
    body.group = group;
    body.batch = batch;
    body.partitions_max = 64;
    body.lease_seconds = 60;
    body.subscription.mode = mode;
    body.lease_id = make_uuid_v7(clock_.wall_us(), random_);
    body.queue_uuid = make_uuid_v7(clock_.wall_us(), random_);
    body.group_uuid = make_uuid_v7(clock_.wall_us(), random_);
    Waiting<Answer<PopAnswer>> waiting;
    broker_->pop(command(std::move(body)), false, clock_.mono_us() + 20 * kSecond, waiting.callback());
    auto answer = waiting.get();
    EXPECT_TRUE(answer) << answer.error().error;
    return answer ? std::move(*answer) : PopAnswer{};
  }
  void ack(const std::string& group, const PopAnswer& answer,
           machine::AckStatus status = machine::AckStatus::completed) {
    machine::AckCommand body;
    body.group = group;
    for (const auto& part : answer.parts) {
      for (const auto& message : part.messages.messages) {
        machine::AckItem item;
        item.partition_id = std::to_string(part.claim.pid.value);
        item.transaction_id = message.transaction_id;
        item.hash = xxh3_128(message.transaction_id);
        item.status = status;
        item.error = "because";
        item.dlq_id = make_uuid_v7(clock_.wall_us(), random_);
        body.items.push_back(std::move(item));
      }
    }
    Waiting<Answer<machine::Outcome>> waiting;
    broker_->ack(command(std::move(body)), waiting.callback());
    EXPECT_TRUE(waiting.get());
  }

  // Everything from the beginning, newest first, unless a test narrows it.
  MessageQuery everything() {
    MessageQuery out;
    out.to_us = wall() + 3'600 * kSecond;
    return out;
  }
  // Transaction ids of a page, each with a blank behind it.
  std::string browse(const MessageQuery& query, const std::string& tenant = kTenant) {
    const auto view = resources().messages(tenant, query);
    EXPECT_TRUE(view) << view.error().error;
    std::string out;
    for (const auto& message : view->messages) out += message.transaction_id + ' ';
    return out;
  }
  DepthView depth(const std::string& queue, const std::optional<std::string>& group = std::nullopt) {
    const auto view = resources().depth(kTenant, queue, group);
    EXPECT_TRUE(view && *view);
    return **view;
  }

 private:
  machine::Command command(auto body, const std::string& tenant = kTenant) {
    return {tenant, make_uuid_v7(clock_.wall_us(), random_), std::move(body)};
  }
  void submit(auto body) {
    Waiting<Answer<machine::Outcome>> waiting;
    broker_->submit(command(std::move(body)), waiting.callback());
    EXPECT_TRUE(waiting.get());
  }

  std::string directory_;
  Settings settings_;
  std::unique_ptr<disk::Disk> disk_ = disk::make_posix_disk();
  ShiftedClock clock_;
  SystemRandom random_;
  std::unique_ptr<Broker> broker_;
};

inline std::string depth_text(const DepthView& depth) {
  std::string out;
  for (const auto& partition : depth.partitions)
    out += fmt::format("{}:{}/{} ", partition.name, partition.pending, partition.processing);
  return out;
}

}  // namespace queen::broker::testing
