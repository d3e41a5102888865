// The two indexes against the plain list of records that they stand for: the one of the file being written,
// and the one of a sealed file searched where it lies.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "qlog/detail/active_index.h"
#include "qlog/detail/sealed_index.h"
#include "support.h"

namespace queen::qlog {
namespace {

using detail::ActiveIndex;
using detail::IndexAnswer;
using detail::IndexQuery;
using detail::IndexRecord;
using detail::SealedIndex;

constexpr std::uint64_t kFileBytes = 1ULL << 30;

// Records as a log's file has them: offsets of each partition ascend, with gaps; stamps never decrease.
std::vector<IndexRecord> some_records(SeededRandom& random, std::size_t count, std::uint64_t pids) {
  std::vector<IndexRecord> records;
  std::map<std::uint64_t, std::uint64_t> next;
  std::int64_t stamp = 1000;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t pid = random.next() % pids;
    auto& base = next.try_emplace(pid, random.next() % 5).first->second;
    if (random.next() % 8 == 0) base += random.next() % 4;
    const auto messages = static_cast<std::uint32_t>(1 + random.next() % 3);
    stamp += static_cast<std::int64_t>(random.next() % 3);
    records.push_back({.pid = pid,
                       .base_offset = base,
                       .end = base + messages,
                       .created_at = stamp,
                       .position = kFileHeaderBytes + 100 * i,
                       .count = messages,
                       .length = 100});
    base += messages;
  }
  return records;
}

// What the list itself says.
IndexAnswer model(const std::vector<IndexRecord>& records, const IndexQuery& query, std::size_t most) {
  IndexAnswer answer;
  for (const auto& record : records) {
    if (record.pid != query.pid) continue;
    if (!query.satisfied_by(record.end, record.created_at)) {
      answer.ends = true;
      continue;
    }
    if (answer.records.empty() && record.base_offset <= query.offset) answer.ends = true;
    if (answer.records.size() < most) answer.records.push_back(record);
  }
  return answer;
}

void expect_same(const IndexAnswer& got, const IndexAnswer& expected) {
  EXPECT_EQ(got.records, expected.records);
  EXPECT_EQ(got.ends, expected.ends);
}

std::vector<IndexQuery> some_queries(SeededRandom& random, const std::vector<IndexRecord>& records) {
  std::vector<IndexQuery> queries;
  for (int i = 0; i < 200; ++i) {
    const IndexRecord& near = records[random.next() % records.size()];
    IndexQuery query{
        .pid = random.next() % 10 == 0 ? near.pid + 1 : near.pid,
        .offset = near.base_offset + random.next() % 5 - std::min<std::uint64_t>(near.base_offset, 2)};
    if (random.next() % 2 == 0)
      query.since_us = near.created_at + static_cast<std::int64_t>(random.next() % 3) - 1;
    queries.push_back(query);
  }
  return queries;
}

// storage.md 20.1: both indexes give what the records say, whatever the shape of the file.
RC_GTEST_PROP(Indexes, AnswerAsTheirRecordsSay, (std::uint64_t seed)) {
  SeededRandom random(seed);
  const std::uint64_t pids = 1 + random.next() % (random.next() % 2 == 0 ? 3 : 300);
  auto records = some_records(random, 1 + random.next() % 700, pids);
  ActiveIndex active;
  for (const auto& record : records) active.add(record);
  const auto sealed = SealedIndex::hold(active.encode(7, kFileBytes), 7, kFileBytes);
  RC_ASSERT(sealed.has_value());
  RC_ASSERT((*sealed)->count() == records.size());
  for (const auto& query : some_queries(random, records)) {
    const std::size_t most = 1 + random.next() % 40;
    const IndexAnswer expected = model(records, query, most);
    expect_same(active.find(query, most), expected);
    expect_same((*sealed)->find(query, most), expected);
  }
  detail::sort_records(records);
  std::vector<IndexRecord> visited;
  (*sealed)->for_each(0, records.size(), [&](const IndexRecord& record) { visited.push_back(record); });
  RC_ASSERT(visited == records);
}

TEST(ActiveIndex, IsEmptyAtFirst) {
  const ActiveIndex index;
  expect_same(index.find({.pid = 0, .offset = 0}, 10), {});
  EXPECT_TRUE(SealedIndex::hold(index.encode(7, kFileBytes), 7, kFileBytes));
}

IndexRecord message(std::uint64_t pid, std::uint64_t offset) {
  return {.pid = pid,
          .base_offset = offset,
          .end = offset + 1,
          .created_at = 5,
          .position = kFileHeaderBytes,
          .count = 1,
          .length = 100};
}

// The budget of RAM: a million partitions of one message each stand in one active file.
TEST(ActiveIndex, APartitionOfOneMessageTakesAtMostSeventyBytes) {
  ActiveIndex index;
  for (std::uint64_t pid = 0; pid < 1'000'000; ++pid) {
    index.add(message(pid, 0));
    if (pid % 50'021 == 50'020) {
      ASSERT_LE(index.memory_bytes() / (pid + 1), 70u) << pid;
    }
  }
  EXPECT_LE(index.memory_bytes() / 1'000'000, 70u);
}

TEST(ActiveIndex, AQuietLogTakesLittle) {
  ActiveIndex index;
  EXPECT_EQ(index.memory_bytes(), 0u);
  index.add(message(1, 0));
  EXPECT_LE(index.memory_bytes(), 600u);
  for (std::uint64_t pid = 2; pid <= 4000; ++pid) {
    index.add(message(pid, 0));
    ASSERT_LE(index.memory_bytes(), 600 + pid * 140);  // never above twice what it needs
  }
}

// A reader far behind in one hot partition must not walk it whole.
TEST(ActiveIndex, FindsAnyPlaceInALongPartition) {
  ActiveIndex index;
  for (std::uint64_t offset = 0; offset < 300'000; ++offset) index.add(message(3, offset));
  for (std::uint64_t offset = 0; offset < 300'000; offset += 5) {  // hours, if each walked
    const auto answer = index.find({.pid = 3, .offset = offset}, 2);
    ASSERT_EQ(answer.records.size(), 2u);
    ASSERT_EQ(answer.records.front().base_offset, offset);
  }
}

}  // namespace
}  // namespace queen::qlog
