#include "store/store.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <thread>

#include "base/hash.h"
#include "base/ids.h"
#include "store/detail/table.h"
#include "store/keys.h"
#include "store/rows.h"
#include "store/tests/model.h"

namespace queen::store {
namespace {

constexpr Keyspace kSpace = Keyspace::kv;

Cut cut_of(Store& store) {
  return store.cut();
}
const std::vector<CutRow>& rows_of(const Cut& cut, Keyspace keyspace) {
  return cut.rows[static_cast<std::size_t>(keyspace)];
}

RC_GTEST_PROP(Store, BehavesAsAnOrderedMap, ()) {
  Store store;
  Model model;
  const int steps = *rc::gen::inRange(1, 400);
  for (int i = 0; i < steps; ++i) {
    const Bytes key = *keys();
    if (*rc::gen::weightedElement<bool>({{3, true}, {1, false}})) {
      const Bytes value = *values();
      store.put(kSpace, key, value);
      model[key] = value;
    } else {
      RC_ASSERT(store.erase(kSpace, key) == (model.erase(key) == 1));
    }
  }
  RC_ASSERT(store.rows(kSpace) == model.size());
  expect_same(store, kSpace, model, {}, {});
  for (int i = 0; i < 10; ++i) {
    const Bytes at = *keys();
    expect_same(store, kSpace, model, BytesView(at).substr(0, *rc::gen::inRange<std::size_t>(0, at.size())),
                at);
    const Bytes other = *keys();
    expect_same(store, kSpace, model, BytesView(other).substr(0, *rc::gen::inRange<std::size_t>(0, 4)), at);
  }
}

// Many rows of one shape, so that blocks split, empty and join; every row is checked after each phase.
TEST(Store, KeepsOrderThroughGrowthAndDecay) {
  SeededRandom random(7);
  Store store;
  Model model;
  for (int phase = 0; phase < 6; ++phase) {
    for (int i = 0; i < 4000; ++i) {
      const Pid pid{random.next() % 3000};
      const Bytes key = phase % 2 == 0 ? partition_key(pid) : queue_partition_key("tenant", "queue", pid);
      if (random.next() % 10 < (phase < 3 ? 8U : 2U)) {
        const Bytes value(random.next() % 700, static_cast<char>('a' + phase));
        store.put(kSpace, key, value);
        model[key] = value;
      } else {
        ASSERT_EQ(store.erase(kSpace, key), model.erase(key) == 1);
      }
    }
    ASSERT_EQ(scan_of(store, kSpace, {}, {}), scan_of(model, {}, {})) << phase;
  }
  for (const auto& [key, value] : Model(model)) ASSERT_TRUE(store.erase(kSpace, key));
  EXPECT_EQ(store.rows(kSpace), 0U);
  EXPECT_TRUE(scan_of(store, kSpace, {}, {}).empty());
}

// A block full of rows under one very long prefix must not swell past its 16-bit offsets when a stranger
// comes.
TEST(Store, LongSharedPrefixesSurviveStrangersOnBothSides) {
  Store store;
  Model model;
  const Bytes lead(480, 'm');
  const auto put = [&](const Bytes& key) {
    store.put(kSpace, key, "v");
    model[key] = "v";
  };
  for (int i = 0; i < 280; ++i) put(lead + std::to_string(1000 + i));
  for (const char* stranger : {"a", "z", "mm", "n"}) put(stranger);
  for (int i = 0; i < 280; ++i) put(lead + std::to_string(1000 + i) + "x");
  EXPECT_EQ(scan_of(store, kSpace, {}, {}), scan_of(model, {}, {}));
}

TEST(Store, TablesDoNotMix) {
  Store store;
  store.put(Keyspace::queues, "k", "1");
  EXPECT_EQ(store.get(Keyspace::groups, "k"), std::nullopt);
  EXPECT_FALSE(store.erase(Keyspace::groups, "k"));
  EXPECT_EQ(store.get(Keyspace::queues, "k"), "1");
}

TEST(Store, LastAtOrBelowStaysInsideThePrefix) {
  Store store;
  store.put(Keyspace::txns, txns_key(Pid{1}, 0), "a");
  store.put(Keyspace::txns, txns_key(Pid{1}, 10), "b");
  store.put(Keyspace::txns, txns_key(Pid{2}, 5), "c");
  EXPECT_EQ(store.last_at_or_below(Keyspace::txns, txns_prefix(Pid{1}), txns_key(Pid{1}, 9))->value, "a");
  EXPECT_EQ(store.last_at_or_below(Keyspace::txns, txns_prefix(Pid{1}), txns_key(Pid{1}, 10))->value, "b");
  EXPECT_EQ(store.last_at_or_below(Keyspace::txns, txns_prefix(Pid{1}), txns_key(Pid{3}, 0))->value, "b");
  EXPECT_FALSE(store.last_at_or_below(Keyspace::txns, txns_prefix(Pid{2}), txns_key(Pid{2}, 4)));
  EXPECT_FALSE(store.last_at_or_below(Keyspace::txns, txns_prefix(Pid{3}), txns_key(Pid{3}, 4)));
}

TEST(Checksum, IsTheChainOfKeyspaceKeyAndValue) {
  const std::uint64_t ks = xxh3_64("kv", 0x517565656E4B5331);
  EXPECT_EQ(row_checksum(Keyspace::kv, "key", "value"), xxh3_64("value", xxh3_64("key", ks)));
  EXPECT_NE(row_checksum(Keyspace::kv, "key", "value"), row_checksum(Keyspace::kv, "kez", "value"));
  EXPECT_NE(row_checksum(Keyspace::kv, "key", "value"), row_checksum(Keyspace::timers, "key", "value"));
}

// The worked example of docs/formats/store.md.
TEST(Checksum, OfTheWorkedExampleIsAsDocumented) {
  const Bytes value = KvRow{"value", 9, 3000, 1000, 2000}.encode();
  EXPECT_EQ(row_checksum(Keyspace::kv, kv_key("t", "n", "k"), value), 0x5EB413D24BFD6D3EU);
}

TEST(Cut, HoldsEveryChangeOnceInKeyOrderWithItsChecksum) {
  Store store;
  store.put(kSpace, "b", "1");
  store.put(kSpace, "a", "1");
  store.put(kSpace, "b", "2");
  store.put(kSpace, "c", "3");
  store.erase(kSpace, "c");
  const Cut cut = cut_of(store);
  ASSERT_EQ(cut.count(), 3U);
  const auto& rows = rows_of(cut, kSpace);
  EXPECT_EQ(rows[0].key, "a");
  EXPECT_EQ(rows[1].key, "b");
  EXPECT_EQ(rows[1].value, "2");
  EXPECT_EQ(rows[1].checksum, row_checksum(kSpace, "b", "2"));
  EXPECT_EQ(rows[2].key, "c");
  EXPECT_EQ(rows[2].value, std::nullopt);
}

TEST(Cut, IsEmptyWhenNothingChangedSinceTheLast) {
  Store store;
  store.put(kSpace, "a", "1");
  cut_of(store);
  EXPECT_EQ(store.cut().count(), 0U);
  EXPECT_FALSE(store.erase(kSpace, "absent"));
  EXPECT_EQ(store.cut().count(), 0U);
}

TEST(Cut, LoadedRowsAreClean) {
  Store store;
  store.load(kSpace, "a", "1", row_checksum(kSpace, "a", "1"));
  EXPECT_EQ(store.cut().count(), 0U);
  store.put(kSpace, "a", "2");
  EXPECT_EQ(store.cut().count(), 1U);
}

TEST(Cut, PutBackComesAgainAndNewerValuesWin) {
  Store store;
  store.put(kSpace, "kept", "1");
  store.put(kSpace, "newer", "1");
  store.put(kSpace, "gone", "1");
  store.put(kSpace, "back", "1");
  cut_of(store);
  store.erase(kSpace, "back");
  store.put(kSpace, "kept", "2");
  const Cut failed = cut_of(store);
  store.put(kSpace, "back", "3");
  store.put(kSpace, "other", "4");
  store.put_back(failed);
  const Cut again = cut_of(store);
  const auto& rows = rows_of(again, kSpace);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].value, "3");
  EXPECT_EQ(rows[1].value, "2");
  EXPECT_EQ(rows[2].value, "4");
  EXPECT_EQ(store.cut().count(), 0U);
}

// The rows that cuts carry, applied in order, always make the store's rows: whatever is put back in between.
RC_GTEST_PROP(Cut, CutsInOrderRebuildTheStore, ()) {
  Store store;
  Model copy;
  const int steps = *rc::gen::inRange(1, 120);
  for (int i = 0; i < steps; ++i) {
    const Bytes key = *keys();
    if (*rc::gen::arbitrary<bool>())
      store.put(kSpace, key, *values());
    else
      store.erase(kSpace, key);
    if (*rc::gen::inRange(0, 8) != 0 && i + 1 != steps) continue;
    const Cut cut = store.cut();
    if (i + 1 != steps && *rc::gen::arbitrary<bool>()) {
      store.put_back(cut);
      continue;
    }
    for (const CutRow& row : rows_of(cut, kSpace)) {
      if (row.value)
        copy[row.key] = *row.value;
      else
        copy.erase(row.key);
    }
  }
  RC_ASSERT(scan_of(store, kSpace, {}, {}) == scan_of(copy, {}, {}));
}

TEST(Digest, LeavesOutWhatDiffersBetweenNodes) {
  Store a;
  Store b;
  a.put(Keyspace::meta, kMetaAppliedIndex, encode_meta_u64(5));
  b.put(Keyspace::meta, kMetaAppliedIndex, encode_meta_u64(5));
  a.put(Keyspace::meta, kMetaDurableIndex, encode_meta_u64(4));
  a.put(Keyspace::meta, meta_qlog_tail(LogId{3}), encode_meta_u64(4));
  EXPECT_EQ(a.digest(), b.digest());
  b.put(Keyspace::meta, kMetaAppliedIndex, encode_meta_u64(6));
  EXPECT_NE(a.digest(), b.digest());
}

TEST(Digest, SeesTableKeyAndValueBorders) {
  Store a;
  Store b;
  a.put(Keyspace::kv, "ab", "c");
  b.put(Keyspace::kv, "a", "bc");
  EXPECT_NE(a.digest(), b.digest());
  Store c;
  c.put(Keyspace::timers, "ab", "c");
  EXPECT_NE(a.digest(), c.digest());
}

TEST(Digest, DoesNotDependOnTheWayThere) {
  Store a;
  Store b;
  for (int i = 0; i < 500; ++i) a.put(kSpace, "k" + std::to_string(i), "v");
  for (int i = 999; i >= 0; --i) b.put(kSpace, "k" + std::to_string(i), "w");
  for (int i = 500; i < 1000; ++i) b.erase(kSpace, "k" + std::to_string(i));
  for (int i = 0; i < 500; ++i) b.put(kSpace, "k" + std::to_string(i), "v");
  EXPECT_EQ(a.digest(), b.digest());
}

// One writer changes two rows under one gate; readers must never see one without the other.
TEST(Gates, ReadersSeeWholeEntriesOnly) {
  Store store;
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop.load()) {
        const auto gate = store.read_gate();
        if (store.get(kSpace, "left") != store.get(Keyspace::timers, "right")) ++torn;
        if (scan_of(store, kSpace, {}, {}).size() != store.rows(kSpace)) ++torn;
      }
    });
  }
  for (int i = 0; i < 2000; ++i) {
    const auto gate = store.write_gate();
    const Bytes value = std::to_string(i);
    store.put(kSpace, "left", value);
    store.put(kSpace, "k" + std::to_string(i % 200), value);
    store.put(Keyspace::timers, "right", value);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(torn.load(), 0);
  EXPECT_EQ(store.get(kSpace, "left"), "1999");
}

// The budget of an idle partition counts on rows that cost little beside their bytes. Keys here are 58 bytes,
// of which a block keeps the part that differs.
TEST(Table, RowsCostLittleBesideTheirBytes) {
  detail::Table table;
  constexpr std::size_t kRows = 20'000;
  for (std::size_t i = 0; i < kRows; ++i)
    table.put(queue_partition_key(kDefaultTenant, "queue-name", Pid{i}), {}, 0, detail::Dirty::no);
  EXPECT_LT(table.block_bytes() / kRows, 20U);
  EXPECT_GT(kRows / table.blocks(), 100U);
}

}  // namespace
}  // namespace queen::store
