#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lmdb.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/ids.h"
#include "store/checkpoint_file.h"
#include "store/detail/lmdb_checkpoint.h"
#include "store/keys.h"
#include "store/rows.h"
#include "store/tests/lmdb_folder.h"
#include "store/tests/model.h"

namespace queen::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

Logger quiet() {
  return {null_log(), "store"};
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void replace_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Opening and loading, as a boot does it. The text of a refusal, or "" with the rows in `store`.
std::string boot(const LmdbFolder& folder, Store& store) {
  auto file = open_small(folder);
  if (!file) return file.error().what;
  const Status loaded = (*file)->load(store);
  return loaded ? "" : loaded.error().what;
}

void write_all(CheckpointFile& file, Store& store) {
  const Status written = file.write(store.cut());
  ASSERT_TRUE(written) << written.error().what;
}

void fill(Store& store) {
  store.put(Keyspace::meta, kMetaAppliedIndex, encode_meta_u64(7));
  for (int i = 0; i < 300; ++i)
    store.put(Keyspace::queues, queue_key("tenant", "queue-" + std::to_string(i)), Bytes(60, 'q'));
  store.put(Keyspace::kv, kv_key("tenant", "ns", "big"), Bytes(9000, 'b'));
  store.put(Keyspace::kv, kv_key("tenant", "ns", "small"), "s");
  store.put(Keyspace::queue_partitions, queue_partition_key("tenant", "queue-1", Pid{1}), {});
}

Bytes with_checksum(Keyspace keyspace, BytesView key, BytesView value) {
  Bytes out(value);
  append_le(out, row_checksum(keyspace, key, value));
  return out;
}

class CheckpointOnDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    auto file = open_small(folder_);
    ASSERT_TRUE(file) << file.error().what;
    fill(store_);
    write_all(**file, store_);
  }
  // The boot is refused with these words and leaves the file as it is.
  template <class Matcher>
  void expect_refused(Matcher matcher) {
    const std::string before = bytes_of(folder_.file());
    Store loaded;
    EXPECT_THAT(boot(folder_, loaded), matcher);
    EXPECT_TRUE(bytes_of(folder_.file()) == before);
  }
  LmdbFolder folder_;
  Store store_;
  const Bytes queue_ = queue_key("tenant", "queue-5");
};

TEST_F(CheckpointOnDisk, LoadGivesBackEveryRow) {
  Store loaded;
  EXPECT_EQ(boot(folder_, loaded), "");
  EXPECT_EQ(loaded.digest(), store_.digest());
  for (std::size_t i = 0; i < kKeyspaceCount; ++i)
    EXPECT_EQ(loaded.rows(static_cast<Keyspace>(i)), store_.rows(static_cast<Keyspace>(i)))
        << kKeyspaceNames[i];
  EXPECT_EQ(loaded.cut().count(), 0U);
  EXPECT_EQ(loaded.get(Keyspace::meta, kMetaStoreFormat), std::nullopt);
}

TEST_F(CheckpointOnDisk, LoadLeavesTheFileAsItIs) {
  const std::string before = bytes_of(folder_.file());
  Store loaded;
  EXPECT_EQ(boot(folder_, loaded), "");
  EXPECT_TRUE(bytes_of(folder_.file()) == before);
}

TEST_F(CheckpointOnDisk, FlippedValueNamesKeyspaceKeyAndCause) {
  change_table(folder_, "queues", [&](MDB_txn* txn, MDB_dbi dbi) {
    Bytes stored = raw_get(txn, dbi, queue_);
    stored[3] ^= 1;
    raw_put(txn, dbi, queue_, stored);
  });
  expect_refused(AllOf(HasSubstr("keyspace queues"), HasSubstr("74656e616e740000"),
                       HasSubstr("tenant..queue-5"), HasSubstr("checksum does not match")));
}

TEST_F(CheckpointOnDisk, ValueUnderAnotherKeyIsRefused) {
  change_table(folder_, "queues", [&](MDB_txn* txn, MDB_dbi dbi) {
    raw_put(txn, dbi, queue_, raw_get(txn, dbi, queue_key("tenant", "queue-6")));
  });
  expect_refused(AllOf(HasSubstr("queue-5"), HasSubstr("checksum does not match")));
}

TEST_F(CheckpointOnDisk, ValueInAnotherTableIsRefused) {
  change_table(folder_, "eph_config", [&](MDB_txn* txn, MDB_dbi dbi) {
    raw_put(txn, dbi, queue_, with_checksum(Keyspace::queues, queue_, "value"));
  });
  expect_refused(AllOf(HasSubstr("keyspace eph_config"), HasSubstr("checksum does not match")));
}

TEST_F(CheckpointOnDisk, ValueShorterThanItsChecksumIsRefused) {
  change_table(folder_, "queues", [&](MDB_txn* txn, MDB_dbi dbi) { raw_put(txn, dbi, queue_, "1234567"); });
  expect_refused(AllOf(HasSubstr("keyspace queues"), HasSubstr("shorter than its checksum")));
}

TEST_F(CheckpointOnDisk, LostRowIsRefusedByItsTablesCount) {
  change_table(folder_, "queues", [&](MDB_txn* txn, MDB_dbi dbi) {
    MDB_val name = val(queue_);
    EXPECT_EQ(mdb_del(txn, dbi, &name, nullptr), 0);
  });
  expect_refused(AllOf(HasSubstr("rows/queues"), HasSubstr("should have 300 rows and has 299")));
}

// The checkpoint after the loss must not bless it with a new count.
TEST_F(CheckpointOnDisk, LostRowIsStillSeenAfterTheNextCheckpoint) {
  change_table(folder_, "queues", [&](MDB_txn* txn, MDB_dbi dbi) {
    MDB_val name = val(queue_);
    EXPECT_EQ(mdb_del(txn, dbi, &name, nullptr), 0);
  });
  {
    auto file = open_small(folder_);
    ASSERT_TRUE(file);
    store_.put(Keyspace::queues, queue_key("tenant", "new"), "v");
    write_all(**file, store_);
  }
  expect_refused(HasSubstr("should have 301 rows and has 300"));
}

TEST_F(CheckpointOnDisk, LostTableIsRefused) {
  change_table(folder_, "queues", [&](MDB_txn* txn, MDB_dbi dbi) { EXPECT_EQ(mdb_drop(txn, dbi, 1), 0); });
  expect_refused(HasSubstr("should have 300 rows and has 0"));
}

TEST_F(CheckpointOnDisk, UnrecordedRowIsRefused) {
  change_table(folder_, "flags", [&](MDB_txn* txn, MDB_dbi dbi) {
    raw_put(txn, dbi, "f", with_checksum(Keyspace::flags, "f", "v"));
  });
  expect_refused(HasSubstr("table flags should have 0 rows and has 1"));
}

TEST_F(CheckpointOnDisk, NewerFormatNamesFoundAndSupported) {
  change_table(folder_, "meta", [&](MDB_txn* txn, MDB_dbi dbi) {
    raw_put(txn, dbi, "store_format", with_checksum(Keyspace::meta, "store_format", encode_meta_u64(2)));
  });
  expect_refused(AllOf(HasSubstr("store_format 2"), HasSubstr("supports 1"), HasSubstr("restore a backup")));
}

TEST_F(CheckpointOnDisk, RowsWithoutFormatAreRefused) {
  change_table(folder_, "meta", [&](MDB_txn* txn, MDB_dbi dbi) {
    const Bytes key(kMetaStoreFormat);
    MDB_val name = val(key);
    EXPECT_EQ(mdb_del(txn, dbi, &name, nullptr), 0);
  });
  expect_refused(AllOf(HasSubstr("no store_format"), HasSubstr("supports 1")));
}

TEST_F(CheckpointOnDisk, ForeignFileIsRefusedByPath) {
  replace_file(folder_.file(), std::string(20'000, 'x'));
  expect_refused(AllOf(HasSubstr(folder_.file()), HasSubstr("not an LMDB file")));
}

// Cut at each page, and inside pages: refused, never a bus error, or (when only free pages went) loaded
// whole.
TEST_F(CheckpointOnDisk, EveryTruncationIsRefusedOrHarmless) {
  const std::string whole = bytes_of(folder_.file());
  const std::uint64_t expected = store_.digest();
  int refused = 0;
  for (std::size_t size = whole.size() - 1; size > 0; size -= std::min<std::size_t>(size, 1500)) {
    replace_file(folder_.file(), whole.substr(0, size));
    Store loaded;
    const std::string refusal = boot(folder_, loaded);
    if (refusal.empty()) {
      EXPECT_EQ(loaded.digest(), expected) << size;
      continue;
    }
    EXPECT_THAT(refusal, AllOf(HasSubstr(folder_.file()), HasSubstr("truncated"))) << size;
    EXPECT_EQ(fs::file_size(folder_.file()), size);
    ++refused;
  }
  EXPECT_GT(refused, 10);
}

// A flipped bit anywhere: refused, or it lay where nothing is (free pages, page gaps), or in the newest meta
// page so that LMDB goes by the older one, which here is the empty file. Never a crash, never a wrong row.
TEST_F(CheckpointOnDisk, EveryDamagedByteIsRefusedOrHarmless) {
  const std::string whole = bytes_of(folder_.file());
  const std::uint64_t expected = store_.digest();
  const std::uint64_t empty = Store().digest();
  SeededRandom random(11);
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bytes = whole;
    // Every second one hits the first bytes of a page, where the structure is.
    std::size_t at = random.next() % bytes.size();
    if (i % 2 == 0) at = at / 4096 * 4096 + random.next() % 160;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.next() % 8));
    replace_file(folder_.file(), bytes);
    Store loaded;
    const std::string refusal = boot(folder_, loaded);
    if (!refusal.empty()) {
      ++refused;
      continue;
    }
    EXPECT_TRUE(loaded.digest() == expected || loaded.digest() == empty) << at;
  }
  EXPECT_GT(refused, 300);
}

// A branch page says where a key belongs: what is damaged there does not show in a load, but would send the
// next write of a key to the wrong page. Each byte of one is changed; what is not refused must take writes as
// before.
TEST_F(CheckpointOnDisk, DamagedBranchesAreRefusedBeforeTheyAreWrittenTo) {
  const std::string whole = bytes_of(folder_.file());
  std::size_t branch = 2 * 4096;
  while (branch < whole.size() && load_le<std::uint16_t>(whole.data() + branch + 10) != 1) branch += 4096;
  ASSERT_LT(branch, whole.size());
  for (int i = 0; i < 300; ++i)
    store_.put(Keyspace::queues, queue_key("tenant", "queue-" + std::to_string(i)), Bytes(61, 'r'));
  const Cut cut = store_.cut();
  int refused = 0;
  for (std::size_t at = branch; at < branch + 4096; ++at) {
    if (whole[at] == 0 && at % 16 != 0) continue;
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
    replace_file(folder_.file(), bytes);
    Store loaded;
    if (!boot(folder_, loaded).empty()) {
      ++refused;
      continue;
    }
    {
      auto file = open_small(folder_);
      ASSERT_TRUE((*file)->write(cut)) << at;
    }
    Store again;
    EXPECT_EQ(boot(folder_, again), "") << at;
    EXPECT_EQ(again.digest(), store_.digest()) << at;
  }
  EXPECT_GT(refused, 50);
}

// What the check of pages demands holds in every file that LMDB makes.
TEST(Checkpoint, PagesPassTheCheckAfterAnyHistory) {
  LmdbFolder folder;
  Store store;
  SeededRandom random(5);
  for (int round = 0; round < 25; ++round) {
    const bool grows = round % 5 < 3;
    for (int i = 0; i < 4'000; ++i) {
      const std::uint64_t number = random.next() % 20'000;
      const Bytes key = Bytes(number % 7 * 30, 'x') + std::to_string(number);
      if (random.next() % 10 < (grows ? 8U : 2U))
        store.put(Keyspace::kv, key, Bytes(random.next() % 600, 'v'));
      else
        store.erase(Keyspace::kv, key);
    }
    auto file = open_small(folder);
    ASSERT_TRUE(file) << round << ": " << file.error().what;
    write_all(**file, store);
    file->reset();
    Store loaded;
    ASSERT_EQ(boot(folder, loaded), "") << round;
    ASSERT_EQ(loaded.digest(), store.digest()) << round;
  }
}

TEST_F(CheckpointOnDisk, DamagedRowInMemoryIsNotWrittenAndNothingElseEither) {
  auto file = open_small(folder_);
  ASSERT_TRUE(file);
  const std::uint64_t before = store_.digest();
  Store changed;
  changed.put(Keyspace::queues, queue_, "new");
  changed.put(Keyspace::kv, "k", "v");
  Cut cut = changed.cut();
  cut.rows[static_cast<std::size_t>(Keyspace::kv)][0].value->at(0) ^= 1;
  const Status written = (*file)->write(cut);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::corrupt);
  EXPECT_THAT(written.error().what,
              AllOf(HasSubstr("keyspace kv"), HasSubstr("checksum does not match in memory")));
  Store loaded;
  ASSERT_TRUE((*file)->load(loaded));
  EXPECT_EQ(loaded.digest(), before);
}

TEST_F(CheckpointOnDisk, FreshOnlyUntilTheFirstCheckpoint) {
  LmdbFolder other;
  {
    EXPECT_FALSE(checkpoint_exists(other.store()).value());
    auto file = open_small(other);
    ASSERT_TRUE(file);
    EXPECT_TRUE((*file)->fresh());
  }
  {
    EXPECT_TRUE(checkpoint_exists(other.store()).value());
    auto file = open_small(other);
    ASSERT_TRUE(file);
    EXPECT_TRUE((*file)->fresh());
    write_all(**file, store_);
    EXPECT_FALSE((*file)->fresh());
  }
  EXPECT_FALSE(open_small(other).value()->fresh());
}

TEST_F(CheckpointOnDisk, EmptyFileCountsAsNone) {
  replace_file(folder_.file(), "");
  EXPECT_FALSE(checkpoint_exists(folder_.store()).value());
  EXPECT_TRUE(open_small(folder_).value()->fresh());
}

TEST_F(CheckpointOnDisk, UnreadablePathIsRefusedByName) {
  fs::remove(folder_.file());
  fs::create_directory(folder_.file());
  Store loaded;
  EXPECT_THAT(boot(folder_, loaded), AllOf(HasSubstr(folder_.file()), HasSubstr("not a file")));
}

TEST(Checkpoint, FullMapIsFullAndLeavesTheFileAsItWas) {
  LmdbFolder folder;
  auto file = detail::open_lmdb(folder.store(), {1 << 20, false}, quiet());
  ASSERT_TRUE(file);
  Store store;
  store.put(Keyspace::kv, "a", "1");
  write_all(**file, store);
  const std::uint64_t before = store.digest();
  for (int i = 0; i < 2000; ++i) store.put(Keyspace::kv, "k" + std::to_string(i), Bytes(1000, 'v'));
  const Cut cut = store.cut();
  const Status written = (*file)->write(cut);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::full);
  EXPECT_THAT(written.error().what, HasSubstr("the next open makes it larger"));
  Store loaded;
  ASSERT_TRUE((*file)->load(loaded));
  EXPECT_EQ(loaded.digest(), before);
  store.put_back(cut);
  file->reset();
  auto larger = detail::open_lmdb(folder.store(), {8 << 20, true}, quiet());
  ASSERT_TRUE(larger);
  write_all(**larger, store);
}

// HD-33
TEST(Checkpoint, UsageSaysWhenFourFifthsOfTheMapAreInUse) {
  LmdbFolder folder;
  auto file = detail::open_lmdb(folder.store(), {1 << 20, false}, quiet());
  ASSERT_TRUE(file);
  Store store;
  bool before = (*file)->usage().nearly_full();
  EXPECT_FALSE(before);
  for (int i = 0; i < 250; ++i) {
    store.put(Keyspace::kv, "k" + std::to_string(1000 + i), Bytes(3000, 'v'));
    if (!(*file)->write(store.cut())) break;
    const auto usage = (*file)->usage();
    EXPECT_EQ(usage.nearly_full(), usage.used_bytes > (1 << 20) / 5 * 4);
    before = before || usage.nearly_full();
  }
  EXPECT_TRUE(before);
}

TEST(Checkpoint, MapGrowsBeforeItIsFull) {
  LmdbFolder folder;
  auto file = detail::open_lmdb(folder.store(), {1 << 20, true}, quiet());
  ASSERT_TRUE(file);
  Store store;
  for (int i = 0; i < 4000; ++i) store.put(Keyspace::kv, "k" + std::to_string(i), Bytes(1000, 'v'));
  write_all(**file, store);
  EXPECT_GT((*file)->usage().map_bytes, 8U << 20);
  EXPECT_GT((*file)->usage().used_bytes, 4U << 20);
  Store loaded;
  ASSERT_TRUE((*file)->load(loaded));
  EXPECT_EQ(loaded.digest(), store.digest());
}

// More dirty pages than LMDB keeps in memory (131,071): values of a page each, in an order that scatters
// them.
TEST(Checkpoint, CutOfMoreThan512MiBIsWritten) {
  LmdbFolder folder;
  auto file = detail::open_lmdb(folder.store(), {std::uint64_t{4} << 30, true}, quiet());
  ASSERT_TRUE(file);
  Store store;
  SeededRandom random(3);
  for (int i = 0; i < 135'000; ++i)
    store.put(Keyspace::kv, std::to_string(random.next()), Bytes(4000, static_cast<char>(i)));
  write_all(**file, store);
  Store loaded;
  ASSERT_TRUE((*file)->load(loaded));
  EXPECT_EQ(loaded.rows(Keyspace::kv), store.rows(Keyspace::kv));
}

// HD-29: the file is closed after a large transaction. What stands under its name when it is opened again
// must be that file: in a new one a checkpoint of the changes alone would look whole.
TEST(Checkpoint, FileThatWentWhileItWasClosedIsNotMadeAnew) {
  LmdbFolder folder;
  auto file = open_small(folder);
  ASSERT_TRUE(file);
  Store store;
  for (int i = 0; i < 20'000; ++i) store.put(Keyspace::kv, std::to_string(i), Bytes(2000, 'v'));
  write_all(**file, store);
  fs::remove(folder.file());
  store.put(Keyspace::kv, "one more", "v");
  const Status written = (*file)->write(store.cut());
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::unavailable);
  EXPECT_THAT(written.error().what, HasSubstr("data.mdb"));
  Store loaded;
  EXPECT_THAT(boot(folder, loaded), "");
  EXPECT_EQ(loaded.rows(Keyspace::kv), 0U);
}

// Both kinds of file, checkpoint after checkpoint, against the store they came from.
RC_GTEST_PROP(Checkpoint, AnyHistoryLoadsAsTheStore, ()) {
  const bool in_memory = *rc::gen::arbitrary<bool>();
  LmdbFolder folder;
  std::unique_ptr<CheckpointFile> file =
      in_memory ? make_memory_checkpoint() : std::move(*open_small(folder));
  RC_ASSERT(file->fresh());
  Store store;
  const int rounds = *rc::gen::inRange(1, 4);
  for (int round = 0; round < rounds; ++round) {
    for (int i = *rc::gen::inRange(0, 40); i > 0; --i) {
      const Bytes key = *keys();
      const auto keyspace = *rc::gen::element(Keyspace::meta, Keyspace::kv, Keyspace::files);
      if (*rc::gen::inRange(0, 4) != 0)
        store.put(keyspace, key, *values());
      else
        store.erase(keyspace, key);
    }
    RC_ASSERT(file->write(store.cut()).has_value());
    if (!in_memory && *rc::gen::arbitrary<bool>()) {
      file.reset();
      file = std::move(*open_small(folder));
    }
  }
  Store loaded;
  RC_ASSERT(file->load(loaded).has_value());
  RC_ASSERT(loaded.digest() == store.digest());
}

TEST(Checkpoint, KeysAreNamedInHexAndPrintableUpTo96Bytes) {
  EXPECT_EQ(describe_key(BytesView("a\0b", 3)), "610062 (\"a.b\")");
  const std::string named = describe_key(Bytes(97, 'k'));
  EXPECT_THAT(
      named, AllOf(HasSubstr("... ("), HasSubstr(Bytes(96, 'k')), ::testing::Not(HasSubstr(Bytes(97, 'k')))));
}

}  // namespace
}  // namespace queen::store
