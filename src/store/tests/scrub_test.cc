// The pass over everything that the store holds: it visits each row once, in whatever pieces, and names what
// is damaged.
#include "store/scrub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/keys.h"
#include "store/rows.h"
#include "store/tests/lmdb_folder.h"

namespace queen::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kQueues = 300;

void fill(Store& store) {
  for (std::size_t i = 0; i < kQueues; ++i)
    store.put(Keyspace::queues, queue_key("tenant", "queue-" + std::to_string(i)), Bytes(60, 'q'));
  store.put(Keyspace::kv, kv_key("tenant", "ns", "big"), Bytes(9000, 'b'));
  store.put(Keyspace::files, "last table", "v");
}

// Steps until the pass is over; the rows it verified, or what it found.
Result<std::size_t> pass(Scrub& scrub, std::size_t rows_max) {
  std::size_t rows = 0;
  for (int steps = 0; steps < 10'000; ++steps) {
    const auto step = scrub.step(rows_max);
    if (!step) return step.error();
    EXPECT_LE(step->rows, rows_max);
    rows += step->rows;
    if (step->pass_done) return rows;
  }
  return Error{Errc::unavailable, "the pass does not end"};
}

class ScrubTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fill(store_);
    auto file = open_small(folder_);
    ASSERT_TRUE(file) << file.error().what;
    ASSERT_TRUE((*file)->write(store_.cut()));
    file_ = std::move(*file);
  }
  LmdbFolder folder_;
  Store store_;
  std::unique_ptr<CheckpointFile> file_;
};

// CR-2
TEST_F(ScrubTest, CoversTheFileAndThenRamInStepsOfAnySize) {
  Scrub scrub(store_, *file_);
  // The file has its format and the counts of four tables beside the rows.
  constexpr std::size_t kRows = kQueues + 2;
  constexpr std::size_t kOfFile = 1 + 4;
  for (const std::size_t rows_max : {std::size_t{1}, std::size_t{7}, kQueues, std::size_t{100'000}}) {
    const auto rows = pass(scrub, rows_max);
    ASSERT_TRUE(rows) << rows.error().what;
    EXPECT_EQ(*rows, 2 * kRows + kOfFile) << rows_max;
  }
}

// CR-1, CR-7
TEST_F(ScrubTest, NamesKeyspaceKeyAndCauseOfAValueThatIsWrongInTheFile) {
  const Bytes key = queue_key("tenant", "queue-17");
  file_.reset();
  change_table(folder_, "queues", [&](MDB_txn* txn, MDB_dbi dbi) {
    Bytes stored = raw_get(txn, dbi, key);
    stored[3] ^= 1;
    raw_put(txn, dbi, key, stored);
  });
  file_ = std::move(open_small(folder_).value());
  Scrub scrub(store_, *file_);
  const auto found = pass(scrub, 50);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::corrupt);
  EXPECT_THAT(found.error().what, AllOf(HasSubstr("keyspace queues"), HasSubstr("tenant..queue-17"),
                                        HasSubstr("checksum does not match")));
}

// CR-1
TEST_F(ScrubTest, NamesKeyspaceKeyAndCauseOfAValueThatIsWrongInRam) {
  Store damaged;
  fill(damaged);
  damaged.load(Keyspace::timers, "a", "right", row_checksum(Keyspace::timers, "a", "right"));
  damaged.load(Keyspace::timers, "k", "wrong", row_checksum(Keyspace::timers, "k", "right"));
  Scrub scrub(damaged, *file_);
  const auto found = pass(scrub, 50);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::corrupt);
  EXPECT_THAT(found.error().what, AllOf(HasSubstr("keyspace timers"), HasSubstr("6b (\"k\")"),
                                        HasSubstr("checksum does not match in memory")));
}

// CP-5: rows that come and go between two steps neither end the pass nor fail it.
TEST_F(ScrubTest, GoesOnWhenRowsChangeBetweenItsSteps) {
  Scrub scrub(store_, *file_);
  SeededRandom random(3);
  for (int i = 0; i < 400; ++i) {
    const Bytes key = queue_key("tenant", "queue-" + std::to_string(random.next() % 600));
    if (random.next() % 2 == 0)
      store_.put(Keyspace::queues, key, Bytes(random.next() % 700, 'x'));
    else
      store_.erase(Keyspace::queues, key);
    if (i % 5 == 0) {
      ASSERT_TRUE(file_->write(store_.cut()));
    }
    const auto step = scrub.step(9);
    ASSERT_TRUE(step) << step.error().what;
  }
}

// CK-3
TEST(VerifyReads, EndsTheProcessAtADamagedRow) {
  Store store(Store::VerifyReads::yes);
  store.load(Keyspace::kv, "good", "v", row_checksum(Keyspace::kv, "good", "v"));
  store.load(Keyspace::kv, "k", "wrong", row_checksum(Keyspace::kv, "k", "right"));
  EXPECT_EQ(store.get(Keyspace::kv, "good"), "v");
  // The line that names the row goes to the log, which a death test does not see.
  EXPECT_DEATH(store.get(Keyspace::kv, "k"), "");
  EXPECT_DEATH(store.scan(Keyspace::kv, {}, {}, [](BytesView, BytesView) { return true; }), "");
  EXPECT_DEATH(store.last_at_or_below(Keyspace::kv, {}, "z"), "");
  Store trusting;
  trusting.load(Keyspace::kv, "k", "wrong", 1);
  EXPECT_EQ(trusting.get(Keyspace::kv, "k"), "wrong");
}

}  // namespace
}  // namespace queen::store
