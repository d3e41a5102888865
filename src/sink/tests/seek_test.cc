// The bracket search over a log in memory ([I11]).
#include "sink/seek.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace queen::sink {
namespace {

// Offsets from log_start; the stamp of an offset is a function, so a million records cost nothing.
struct Log {
  std::uint64_t start = 0, end = 0;
  std::int64_t (*stamp)(std::uint64_t) = [](std::uint64_t offset) {
    return static_cast<std::int64_t>(offset / 3) * 10;  // three records of one push share a stamp
  };

  FetchedEntry fetch(const FetchRequest& request) const {
    FetchedEntry entry;
    entry.high_watermark = end;
    entry.log_start = start;
    if (request.offset < start || request.offset > end) {
      entry.error = kErrorOutOfRange;
    } else if (request.offset < end) {
      FetchedRecord record;
      record.offset = request.offset;
      record.ts = stamp(request.offset);
      entry.records.push_back(record);
    }
    return entry;
  }
  std::uint64_t answer(std::int64_t t) const {
    for (std::uint64_t offset = start; offset < end; ++offset)
      if (stamp(offset) >= t) return offset;
    return end;
  }
};

std::optional<std::uint64_t> run(Seek& seek, const Log& log) {
  while (!seek.finished()) seek.on_answer(log.fetch(seek.request()));
  return seek.result();
}
SeekBounds bounds_of(const Log& log) {
  return {log.start, static_cast<std::int64_t>(log.end) - 1};
}

TEST(Seek, IsExactOverAMillionRecordsInAtMost42Probes) {
  const Log log{0, 1'000'000};
  for (const std::int64_t t :
       {-5L, 0L, 1L, 10L, 1'666'660L, 3'333'320L, 3'333'330L, 3'333'331L, 9'999'999L}) {
    Seek seek("p", bounds_of(log), t);
    EXPECT_EQ(run(seek, log), log.answer(t)) << t;
    EXPECT_LE(seek.probes(), 42) << t;
  }
}

TEST(Seek, IsExactForEveryTargetAndLength) {
  for (std::uint64_t start : {0U, 7U})
    for (std::uint64_t length = 0; length < 40; ++length) {
      const Log log{start, start + length};
      for (std::int64_t t = -1; t < 170; ++t) {
        Seek seek("p", bounds_of(log), t);
        ASSERT_EQ(run(seek, log), log.answer(t)) << start << "+" << length << " t " << t;
      }
    }
}

TEST(Seek, AnswersWithoutAProbeForMinusInfinityAndForAnEmptyPartition) {
  Seek all("p", {5, 100}, std::nullopt);
  EXPECT_TRUE(all.finished());
  EXPECT_EQ(all.result(), 5U);
  Seek empty("p", {5, 4}, 77);
  EXPECT_TRUE(empty.finished());
  EXPECT_EQ(empty.result(), 5U);
  EXPECT_EQ(all.probes() + empty.probes(), 0);
}

TEST(Seek, FollowsRetentionThatMovesTheStartMeanwhile) {
  Log log{0, 1000};
  Seek seek("p", bounds_of(log), 5);
  seek.on_answer(log.fetch(seek.request()));
  log.start = 600;
  EXPECT_EQ(run(seek, log), 600U);
}

TEST(Seek, FollowsAHeadThatIsLowerHere) {
  const Log log{0, 500};
  Seek seek("p", {0, 999}, 900);
  EXPECT_EQ(run(seek, log), log.answer(900));
  Seek beyond("p", {0, 999}, 1'000'000);
  EXPECT_EQ(run(beyond, log), 500U);
}

TEST(Seek, FailsAtOnceForAnUnknownPartitionAndWithinItsBudget) {
  Seek unknown("p", {0, 999}, 900);
  FetchedEntry entry;
  entry.error = kErrorUnknown;
  unknown.on_answer(entry);
  EXPECT_TRUE(unknown.finished());
  EXPECT_EQ(unknown.result(), std::nullopt);
  EXPECT_NE(unknown.failure().find("UNKNOWN_TOPIC_OR_PARTITION"), std::string::npos);

  Seek silent("p", {0, 999}, 900);
  int answers = 0;
  for (; !silent.finished(); ++answers) {
    const auto asked = silent.request().offset;
    silent.on_answer(FetchedEntry{});
    if (!silent.finished()) {
      EXPECT_EQ(silent.request().offset, asked);  // an empty answer re-probes
    }
  }
  EXPECT_EQ(answers, 2 * 10 + 8);
  EXPECT_EQ(silent.result(), std::nullopt);
}

TEST(Seek, GivesUpWhenTheCallerDoes) {
  Seek seek("p", {0, 9}, 50);
  seek.give_up("no answer");
  EXPECT_TRUE(seek.finished());
  EXPECT_EQ(seek.result(), std::nullopt);
  EXPECT_EQ(seek.failure(), "seek in p: no answer");
}

}  // namespace
}  // namespace queen::sink
