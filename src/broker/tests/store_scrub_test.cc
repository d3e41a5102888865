// The scrub's pace, its figures, and what happens when it finds something.
#include "broker/store_scrub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/checkpoint_file.h"
#include "store/keys.h"

namespace queen::broker {
namespace {

using store::Keyspace;

constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::size_t kRows = 5'000;

class FixedRandom final : public Random {
 public:
  explicit FixedRandom(std::uint64_t value) : value_(value) {}
  std::uint64_t next() override { return value_; }

 private:
  std::uint64_t value_;
};

Logger quiet() {
  return {null_log(), "rsm"};
}

class StoreScrubTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < kRows; ++i) store_.put(Keyspace::kv, "k" + std::to_string(i), "v");
    ASSERT_TRUE(file_->write(store_.cut()));
  }
  StoreScrub& scrub(StoreScrub::Limits limits) {
    return scrub_.emplace(
        store_, *file_, executor_, limits, [this](const Error& damage) { damage_.push_back(damage.what); },
        quiet());
  }
  ManualClock clock_;
  ManualExecutor executor_{clock_};
  store::Store store_;
  std::unique_ptr<store::CheckpointFile> file_ = store::make_memory_checkpoint();
  std::vector<std::string> damage_;
  std::optional<StoreScrub> scrub_;
};

// CR-2, CR-3: 10,000 rows in file and RAM at 2,000 a second, then again when the period is over.
TEST_F(StoreScrubTest, CoversTheStoreOncePerPeriodAtItsRate) {
  FixedRandom random(0);
  const StoreScrub& scrubbing = scrub({60 * kSecondUs, 2'000});
  scrub_->start(random);
  executor_.run_for(2 * kSecondUs);
  const auto half = scrubbing.figures();
  EXPECT_GT(half.rows, 3'500U);
  EXPECT_LE(half.rows, 4'400U);
  EXPECT_EQ(half.passes, 0U);
  EXPECT_EQ(half.last_pass_at_us, 0);
  executor_.run_for(20 * kSecondUs);
  const auto once = scrubbing.figures();
  EXPECT_EQ(once.passes, 1U);
  EXPECT_EQ(once.rows, 2 * kRows);
  EXPECT_GT(once.last_pass_took_us, 4 * kSecondUs);
  EXPECT_LE(once.last_pass_took_us, 5 * kSecondUs);
  EXPECT_NE(once.last_pass_at_us, 0);
  executor_.run_for(58 * kSecondUs);
  EXPECT_EQ(scrubbing.figures().passes, 2U);
  EXPECT_THAT(damage_, ::testing::IsEmpty());
}

// CR-2
TEST_F(StoreScrubTest, BeginsAfterARandomShareOfItsPeriod) {
  FixedRandom random(40 * kSecondUs);
  scrub({60 * kSecondUs, 1'000'000});
  scrub_->start(random);
  executor_.run_for(39 * kSecondUs);
  EXPECT_EQ(scrub_->figures().rows, 0U);
  executor_.run_for(2 * kSecondUs);
  EXPECT_EQ(scrub_->figures().passes, 1U);
}

TEST_F(StoreScrubTest, IsOffWithoutAPeriod) {
  FixedRandom random(0);
  scrub({0, 2'000});
  scrub_->start(random);
  EXPECT_TRUE(executor_.idle());
}

// CR-1
TEST_F(StoreScrubTest, GivesUpTheProcessAtADamagedRow) {
  store_.load(Keyspace::timers, "k", "wrong", 1);
  FixedRandom random(0);
  scrub({60 * kSecondUs, 1'000'000});
  scrub_->start(random);
  executor_.run_for(60 * kSecondUs);
  EXPECT_THAT(damage_, ::testing::ElementsAre(::testing::HasSubstr("store keyspace timers, key 6b (\"k\")")));
  EXPECT_TRUE(executor_.idle());
}

// CR-1
TEST_F(StoreScrubTest, ADamagedStoreEndsTheProcess) {
  EXPECT_DEATH(end_damaged(store_, Error{Errc::corrupt, "a row"}), "");
}

// CK-4
TEST_F(StoreScrubTest, WholeStoreIsVerifiedAtOnce) {
  EXPECT_TRUE(verify_store(store_, *file_, clock_, quiet()));
  store_.load(Keyspace::timers, "k", "wrong", 1);
  const Status damaged = verify_store(store_, *file_, clock_, quiet());
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, Errc::corrupt);
}

}  // namespace
}  // namespace queen::broker
