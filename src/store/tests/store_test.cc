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

// CP-1: the cut is as of begin_cut(), whatever the writer does until it is collected.
TEST(Cut, CollectedLateHoldsTheRowsAsTheyWere) {
  Store store;
  store.put(kSpace, "changed", "1");
  store.put(kSpace, "twice", "1");
  store.put(kSpace, "erased", "1");
  store.put(kSpace, "again", "1");
  store.put(kSpace, "never", "1");
  store.erase(kSpace, "never");
  store.begin_cut();
  store.put(kSpace, "changed", "2");
  store.put(kSpace, "twice", "2");
  store.put(kSpace, "twice", "3");
  store.erase(kSpace, "erased");
  store.erase(kSpace, "again");
  store.put(kSpace, "again", "2");
  store.put(kSpace, "never", "2");
  store.put(kSpace, "new", "2");
  const Cut first = store.collect_cut();
  Model found;
  for (const CutRow& row : rows_of(first, kSpace)) {
    found[row.key] = row.value.value_or("gone");
    EXPECT_TRUE(!row.value || row.checksum == row_checksum(kSpace, row.key, *row.value));
  }
  EXPECT_EQ(found,
            (Model{{"again", "1"}, {"changed", "1"}, {"erased", "1"}, {"never", "gone"}, {"twice", "1"}}));
  found.clear();
  const Cut second = cut_of(store);
  for (const CutRow& row : rows_of(second, kSpace)) found[row.key] = row.value.value_or("gone");
  EXPECT_EQ(found, (Model{{"again", "2"},
                          {"changed", "2"},
                          {"erased", "gone"},
                          {"never", "2"},
                          {"new", "2"},
                          {"twice", "3"}}));
  EXPECT_EQ(store.cut().count(), 0U);
}

// The same at random, with cuts put back, so that a lost or a newer row anywhere shows.
RC_GTEST_PROP(Cut, CollectedLateInOrderRebuildsTheStore, ()) {
  Store store;
  Model copy;
  const auto change = [&store] {
    const Bytes key = *keys();
    if (*rc::gen::weightedElement<bool>({{2, true}, {1, false}}))
      store.put(kSpace, key, *values());
    else
      store.erase(kSpace, key);
  };
  const int cuts = *rc::gen::inRange(1, 8);
  for (int i = 0; i < cuts; ++i) {
    for (int n = *rc::gen::inRange(0, 40); n > 0; --n) change();
    const auto then = scan_of(store, kSpace, {}, {});
    store.begin_cut();
    for (int n = *rc::gen::inRange(0, 40); n > 0; --n) change();
    const Cut cut = store.collect_cut();
    if (*rc::gen::arbitrary<bool>()) {
      store.put_back(cut);
      continue;
    }
    for (const CutRow& row : rows_of(cut, kSpace)) {
      if (row.value)
        copy[row.key] = *row.value;
      else
        copy.erase(row.key);
    }
    RC_ASSERT(scan_of(copy, {}, {}) == then);
  }
}

// A writer goes on under its gate while another thread collects.
TEST(Cut, IsCollectedWhileTheWriterGoesOn) {
  Store store;
  for (int i = 0; i < 20'000; ++i) store.put(kSpace, "k" + std::to_string(i), "old");
  {
    const auto gate = store.write_gate();
    store.begin_cut();
  }
  std::thread writer([&store] {
    for (int i = 0; i < 20'000; ++i) {
      const auto gate = store.write_gate();
      store.put(kSpace, "k" + std::to_string(i), "new");
    }
  });
  const Cut cut = store.collect_cut();
  writer.join();
  EXPECT_EQ(rows_of(cut, kSpace).size(), 20'000U);
  for (const CutRow& row : rows_of(cut, kSpace)) ASSERT_EQ(row.value, "old") << row.key;
  EXPECT_EQ(store.cut().count(), 20'000U);
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

// The rows that a first push makes, put as apply puts them: partitions ascend, names do not.
void first_push(Store& store, Pid pid) {
  const std::uint64_t scattered = pid.value * 0x9E3779B97F4A7C15ULL;
  PartitionRow row;
  row.tenant = kDefaultTenant;
  row.queue = "queue-" + std::to_string((scattered >> 40) % 100);
  row.partition = "device-" + std::to_string(scattered >> 36);
  row.created_at = row.last_write_at = 1'790'000'000'000'000;
  row.last_offset = 0;
  row.oldest_live_at = row.last_created_at = row.last_write_at;
  store.put(Keyspace::partitions, partition_key(pid), row.encode());
  store.put(Keyspace::partitions_by_key, partition_by_key(row.tenant, row.queue, row.partition),
            encode_pid_row(pid));
  store.put(Keyspace::queue_partitions, queue_partition_key(row.tenant, row.queue, pid), {});
  store.put(Keyspace::txns, txns_key(pid, 0), encode_append_row(0, row.created_at, Bytes(16, 'h'), 310));
  store.put(Keyspace::counters,
            counter_key(CounterScope::queue, counter_id(row.tenant, row.queue), Counter::pushed),
            encode_i64_row(1));
  store.put(Keyspace::counters,
            counter_key(CounterScope::partition, counter_id(pid), Counter::retained_bytes),
            encode_i64_row(310));
}

std::size_t bytes_of(const Store& store) {
  std::size_t out = 0;
  for (std::size_t i = 0; i < kKeyspaceCount; ++i) out += store.bytes(static_cast<Keyspace>(i));
  return out;
}

// ST-3, LIM-2: 190 bytes of rows leave room for the rest of the 300 that an idle partition may take.
TEST(Memory, APartitionOfOneMessageTakesAtMost190Bytes) {
  Store store;
  constexpr std::size_t kPartitions = 50'000;
  for (std::size_t i = 1; i <= kPartitions; ++i) first_push(store, Pid{i});
  EXPECT_LE(bytes_of(store) / kPartitions, 190U);
}

// ST-6
TEST(Memory, ComesBackWhenTheRowsOfPartitionsGo) {
  Store store;
  constexpr std::uint64_t kPartitions = 20'000;
  for (std::uint64_t i = 1; i <= kPartitions; ++i) first_push(store, Pid{i});
  const std::size_t full = bytes_of(store);
  for (std::uint64_t i = 1; i <= kPartitions; ++i) {
    if (i % 10 == 0) continue;
    const Pid pid{i};
    store.erase(Keyspace::partitions, partition_key(pid));
    store.erase(Keyspace::txns, txns_key(pid, 0));
    store.erase(Keyspace::counters,
                counter_key(CounterScope::partition, counter_id(pid), Counter::retained_bytes));
  }
  for (const Keyspace keyspace : {Keyspace::partitions, Keyspace::txns, Keyspace::counters})
    EXPECT_LE(store.bytes(keyspace), full / 8) << name_of(keyspace);
  EXPECT_EQ(store.rows(Keyspace::partitions), kPartitions / 10);
}

}  // namespace
}  // namespace queen::store
