// A broker over real files whose clock is moved by hand: what it answers once rows have left RAM is what it
// answers when they stay (storage.md RT-9, RT-10, D-2).
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "broker/broker.h"
#include "broker/groups.h"
#include "broker/tests/waiting.h"

namespace queen::broker {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

// The system's clock, whose wall time can be set ahead.
class ShiftedClock final : public Clock {
 public:
  std::int64_t wall_us() override { return system_.wall_us() + shift_.load(); }
  std::int64_t mono_us() override { return system_.mono_us(); }
  void shift(std::int64_t us) { shift_ += us; }

 private:
  SystemClock system_;
  std::atomic<std::int64_t> shift_{0};
};

// One broker in a directory of its own.
class Under {
 public:
  explicit Under(bool rows_window) {
    char name[] = "/tmp/queen-cold-XXXXXX";
    directory_ = mkdtemp(name);
    settings_.directory = directory_;
    settings_.disk_high_pct = 100;
    settings_.durable_every_us = 50'000;
    settings_.retention.interval_us = 5'000;
    settings_.retention.batch_appends = 7;
    settings_.retention.rows_window = rows_window;
    open();
  }
  ~Under() {
    broker_.reset();
    std::filesystem::remove_all(directory_);
  }
  void open() {
    auto opened = Broker::open(settings_, *disk_, clock_, random_, Logger(null_log(), "rsm"), nullptr);
    ASSERT_TRUE(opened) << opened.error().what;
    broker_ = std::move(*opened);
  }
  void restart() {
    broker_->stop();
    broker_.reset();
    open();
  }
  // Time passes, and a whole round of retention does what is due by then.
  void pass(std::int64_t seconds) {
    clock_.shift(seconds * kSecond);
    const std::uint64_t before = broker_->health().retention_rounds;
    const std::int64_t until = clock_.mono_us() + 30 * kSecond;
    while (broker_->health().retention_rounds < before + 2 && clock_.mono_us() < until)
      std::this_thread::yield();
    EXPECT_GE(broker_->health().retention_rounds, before + 2);
  }

  machine::Command command(auto body) {
    return {std::string(kDefaultTenant), make_uuid_v7(clock_.wall_us(), random_), std::move(body)};
  }
  Answer<machine::Outcome> submit(auto body) {
    Waiting<Answer<machine::Outcome>> waiting;
    broker_->submit(command(std::move(body)), waiting.callback());
    return waiting.get();
  }
  void configure(std::map<std::string, std::optional<std::int64_t>> options) {
    machine::ConfigureCommand body;
    body.queue = "orders";
    body.integers = std::move(options);
    body.queue_uuid = make_uuid_v7(clock_.wall_us(), random_);
    EXPECT_TRUE(submit(std::move(body)));
  }
  PushItemAnswer push(const std::string& partition, const std::string& id) {
    machine::PushBatch batch;
    batch.queue = "orders";
    batch.partition = partition;
    batch.hashes = xxh3_128(id).view();
    qlog::MessageFrame frame;
    frame.message_id = make_uuid_v7(clock_.wall_us(), random_);
    frame.transaction_id = id;
    const std::string payload = "{\"id\":\"" + id + "\"}";
    frame.payload = payload;
    qlog::append_frame(batch.frames, frame);
    batch.frame_ends.push_back(static_cast<std::uint32_t>(batch.frames.size()));
    auto stored = std::make_shared<machine::StoredPayload>();
    stored->bytes = batch.frames;
    stored->raw_bytes = static_cast<std::uint32_t>(batch.frames.size());
    batch.stored = std::move(stored);
    machine::PushCommand body;
    body.batches.push_back(std::move(batch));
    Waiting<Answer<PushAnswer>> waiting;
    broker_->push(command(std::move(body)), waiting.callback());
    const auto answer = waiting.get();
    EXPECT_TRUE(answer);
    return answer->batches[0][0];
  }
  machine::PopCommand pop_of(const std::string& group, std::uint32_t batch = 200) {
    machine::PopCommand pop;
    pop.queue = "orders";
    pop.group = group;
    pop.batch = batch;
    pop.lease_seconds = 3'600;
    pop.subscription.mode = machine::Subscription::Mode::all;
    pop.lease_id = make_uuid_v7(clock_.wall_us(), random_);
    pop.queue_uuid = make_uuid_v7(clock_.wall_us(), random_);
    pop.group_uuid = make_uuid_v7(clock_.wall_us(), random_);
    return pop;
  }
  PopAnswer pop(machine::PopCommand body) {
    Waiting<Answer<PopAnswer>> waiting;
    broker_->pop(command(std::move(body)), false, clock_.mono_us() + 20 * kSecond, waiting.callback());
    auto answer = waiting.get();
    EXPECT_TRUE(answer) << answer.error().error;
    return answer ? std::move(*answer) : PopAnswer{};
  }
  static std::vector<std::string> ids_of(const PopAnswer& answer) {
    std::vector<std::string> out;
    for (const auto& part : answer.parts)
      for (const auto& message : part.messages.messages) out.emplace_back(message.transaction_id);
    return out;
  }
  machine::AckItemOutcome ack(const std::string& group, const std::string& id, machine::AckStatus status) {
    machine::AckCommand body;
    body.group = group;
    machine::AckItem item;
    item.partition_id = "1";
    item.transaction_id = id;
    item.hash = xxh3_128(id);
    item.status = status;
    item.dlq_id = make_uuid_v7(clock_.wall_us(), random_);
    body.items.push_back(std::move(item));
    Waiting<Answer<machine::Outcome>> waiting;
    broker_->ack(command(std::move(body)), waiting.callback());
    const auto answer = waiting.get();
    EXPECT_TRUE(answer) << answer.error().error;
    return std::get<machine::AckOutcome>(answer->body).items.at(0);
  }
  // An ack and a push in one transaction: what became of it, as text.
  std::string transact(const std::string& group, const std::string& id, machine::AckStatus status) {
    machine::TransactionCommand body;
    machine::AckItem item;
    item.partition_id = "1";
    item.transaction_id = id;
    item.hash = xxh3_128(id);
    item.status = status;
    item.dlq_id = make_uuid_v7(clock_.wall_us(), random_);
    body.acks.emplace_back().group = group;
    body.acks.back().items.push_back(std::move(item));
    machine::KvOp count;
    count.kind = machine::KvKind::put;
    count.ns = "n";
    count.key = id + std::to_string(static_cast<int>(status));
    count.value = "1";
    body.kv.ops.push_back(std::move(count));
    Waiting<Answer<machine::Outcome>> waiting;
    broker_->ack(command(std::move(body)), waiting.callback());
    const auto answer = waiting.get();
    if (!answer) return answer.error().code;
    const auto& out = std::get<machine::TransactionOutcome>(answer->body);
    if (out.undecided) return "undecided";
    if (!out.reason.empty()) return out.reason;
    const auto& acked = out.acks.at(0).items.at(0);
    return acked.noop ? "noop" : acked.dlq ? "dlq" : "done";
  }
  std::uint64_t kv_rows() {
    return broker_->queues(std::string(kDefaultTenant), QueueDetail::counts).kv_rows;
  }
  FetchEntryAnswer fetch(std::uint64_t offset) {
    const std::vector<FetchEntry> entries = {{"orders", "a", offset, 1 << 20}};
    return broker_->fetch(std::string(kDefaultTenant), entries)->at(0);
  }
  QueueSummary summary() {
    return broker_->queues(std::string(kDefaultTenant), QueueDetail::counts).queues.at(0);
  }
  std::vector<GroupCursor> lagging(std::int64_t longer_than_us) {
    return broker_->groups().lagging(std::string(kDefaultTenant), longer_than_us);
  }
  std::optional<std::uint64_t> position(const std::string& group) {
    const std::vector<PositionAsk> asked = {{"orders", "a"}};
    return broker_->groups().positions(std::string(kDefaultTenant), group, asked).at(0).offset;
  }
  std::uint64_t cold_claims() { return broker_->health().cold_claims; }
  std::int64_t wall() { return clock_.wall_us(); }

 private:
  std::string directory_;
  Settings settings_;
  std::unique_ptr<disk::Disk> disk_ = disk::make_posix_disk();
  ShiftedClock clock_;
  SystemRandom random_;
  std::unique_ptr<Broker> broker_;
};

std::string word(bool yes) {
  return yes ? "yes " : "no ";
}

// What a broker answered to the script, as text.
std::string script(bool rows_window) {
  Under node(rows_window);
  std::string out;
  const auto told = [&](const PopAnswer& answer) {
    for (const auto& id : Under::ids_of(answer)) out += id + ' ';
    out += '|';
  };
  const auto acked = [&](const machine::AckItemOutcome& item) {
    out += word(item.success) + word(item.noop) + word(item.dlq) + word(item.lease_released) + '|';
  };
  node.configure({{"dedupWindowSeconds", 1'000}, {"retryLimit", 0}});
  std::int64_t middle = 0;
  for (int i = 0; i < 30; ++i) {
    if (i == 20) middle = node.wall();
    node.push("a", "m" + std::to_string(i));
  }
  node.pass(2'000);
  node.push("a", "young");
  // Pops of old messages, in part settled, in part filed.
  told(node.pop(node.pop_of("g", 10)));
  acked(node.ack("g", "m3", machine::AckStatus::completed));
  acked(node.ack("g", "m1", machine::AckStatus::completed));
  acked(node.ack("g", "m1", machine::AckStatus::failed));
  acked(node.ack("g", "m5", machine::AckStatus::dlq));
  acked(node.ack("g", "m29", machine::AckStatus::completed));
  told(node.pop(node.pop_of("g", 40)));
  acked(node.ack("g", "young", machine::AckStatus::completed));
  acked(node.ack("g", "m0", machine::AckStatus::completed));
  acked(node.ack("g", "never", machine::AckStatus::completed));
  // A start in the middle of what has no rows; the newest message alone; a restart between.
  auto from = node.pop_of("from", 3);
  from.subscription.mode = machine::Subscription::Mode::timestamp;
  from.subscription.from_us = middle;
  told(node.pop(from));
  node.restart();
  auto newest = node.pop_of("newest");
  newest.conflation = true;
  told(node.pop(newest));
  acked(node.ack("newest", "young", machine::AckStatus::completed));
  node.pass(2'000);
  auto late = node.pop_of("late");
  late.conflation = true;
  told(node.pop(late));
  acked(node.ack("late", "young", machine::AckStatus::completed));
  for (const auto& message : node.fetch(3).messages.messages) out += std::string(message.payload) + ' ';
  const auto figures = node.summary();
  out += fmt::format("| {} {} {} {} {}", figures.total, figures.pending, figures.completed,
                     figures.dead_letter, figures.retained_bytes);
  EXPECT_EQ(node.cold_claims() > 0, rows_window);
  return out;
}

// D-2, RT-10, CE-8, A-1 to A-11, DD-9, F-3, C-1
TEST(ColdRows, AnswersAreTheSameWhetherRowsLeaveRamOrStay) {
  const std::string with_rows = script(false);
  EXPECT_EQ(script(true), with_rows);
  EXPECT_NE(with_rows.find("young"), std::string::npos);
}

// A transaction is decided whole when the log had to be asked: for what an ack names, and for repeats that no
// row knows any more.
TEST(ColdRows, TransactionsDecideTheSameWhetherRowsLeaveRamOrStay) {
  using Status = machine::AckStatus;
  for (const bool rows_window : {false, true}) {
    SCOPED_TRACE(rows_window);
    Under node(rows_window);
    node.configure({{"dedupWindowSeconds", 1'000}, {"retryLimit", 0}});
    for (int i = 0; i < 30; ++i) node.push("a", "m" + std::to_string(i));
    node.pass(2'000);
    node.push("a", "young");
    node.pop(node.pop_of("g", 10));
    EXPECT_EQ(node.transact("g", "m3", Status::completed), "done");
    EXPECT_EQ(node.transact("g", "m1", Status::failed), "rejected_ack");
    EXPECT_EQ(node.transact("g", "m1", Status::completed), "noop");
    EXPECT_EQ(node.transact("g", "never", Status::completed), "rejected_ack");
    EXPECT_EQ(node.transact("g", "m5", Status::dlq), "dlq");
    EXPECT_EQ(node.transact("g", "m29", Status::completed), "done");
    EXPECT_EQ(node.transact("g", "m0", Status::completed), "noop");
    EXPECT_EQ(node.kv_rows(), 5U);
  }
}

// RT-10, RT-9: retention finds appends without rows through the log's index; the figures fall to nothing.
TEST(ColdRows, RetentionTakesMessagesWhoseRowsAreGone) {
  Under node(true);
  node.configure({{"dedupWindowSeconds", 1'000}});
  for (int i = 0; i < 30; ++i) node.push("a", "m" + std::to_string(i));
  node.pass(2'000);
  EXPECT_EQ(Under::ids_of(node.pop(node.pop_of("g", 1))), std::vector<std::string>{"m0"});
  EXPECT_EQ(node.cold_claims(), 1U);
  EXPECT_EQ(node.summary().total, 30);
  node.configure({{"dedupWindowSeconds", 1'000}, {"retentionEnabled", 1}, {"retentionSeconds", 100}});
  node.pass(1);
  EXPECT_EQ(node.summary().total, 0);
  EXPECT_EQ(node.summary().retained_bytes, 0);
  EXPECT_EQ(node.fetch(0).error, "OFFSET_OUT_OF_RANGE");
  EXPECT_EQ(node.fetch(0).log_start, 30U);
}

// RT-10, G-1: a seek by time asks the log, and so does the age of what a group has before it.
TEST(ColdRows, ASeekAndTheAgeOfALagKnowMessagesWhoseRowsAreGone) {
  Under node(true);
  node.configure({{"dedupWindowSeconds", 1'000}});
  for (int i = 0; i < 30; ++i) node.push("a", "m" + std::to_string(i));
  const std::int64_t stamp = node.fetch(20).messages.messages.at(0).ts_us;
  node.pass(2'000);
  machine::SeekCommand seek;
  seek.queue = "orders";
  seek.group = "g";
  seek.since_us = stamp;
  const auto sought = node.submit(seek);
  ASSERT_TRUE(sought);
  EXPECT_EQ(std::get<machine::SeekOutcome>(sought->body).partitions, 1U);
  EXPECT_EQ(node.position("g"), 20U);
  const auto lagging = node.lagging(1'000 * kSecond);
  ASSERT_EQ(lagging.size(), 1U);
  EXPECT_EQ(lagging[0].lag, 10U);
  EXPECT_EQ(lagging[0].oldest_us, stamp);
  EXPECT_TRUE(node.lagging(lagging[0].lag_us + 100 * kSecond).empty());
  EXPECT_EQ(Under::ids_of(node.pop(node.pop_of("g", 1))), std::vector<std::string>{"m20"});
  EXPECT_EQ(node.cold_claims(), 1U);
}

// B24, RT-2, DD-1: dedup still refuses a message whose payload retention removed, also after a restart; a
// read below log_start sees nothing; after the window the id is free again.
TEST(ColdRows, DedupRefusesAMessageWhosePayloadRetentionRemoved) {
  Under node(true);
  node.configure({{"dedupWindowSeconds", 2'000}, {"retentionEnabled", 1}, {"retentionSeconds", 10}});
  node.push("a", "once");
  node.pass(100);
  EXPECT_EQ(node.fetch(0).error, "OFFSET_OUT_OF_RANGE");
  EXPECT_EQ(node.push("a", "once").status, PushItemAnswer::Status::duplicate);
  node.restart();
  EXPECT_EQ(node.fetch(0).error, "OFFSET_OUT_OF_RANGE");
  EXPECT_EQ(node.push("a", "once").status, PushItemAnswer::Status::duplicate);
  EXPECT_EQ(node.push("a", "once").offset, 0U);
  node.pass(2'000);
  const auto again = node.push("a", "once");
  EXPECT_EQ(again.status, PushItemAnswer::Status::queued);
  EXPECT_EQ(again.offset, 1U);
}

}  // namespace
}  // namespace queen::broker
