// A data directory whose store was damaged between two boots: it is refused, or it recovers to the same
// state.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "broker/broker.h"
#include "store/checkpoint_file.h"
#include "store/keys.h"
#include "store/rows.h"

namespace queen::broker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr std::size_t kPageBytes = 4096;
// In an LMDB meta page: behind the header, magic and version, address and size, two trees, the last page.
constexpr std::size_t kMetaTransactionAt = 16 + 8 + 16 + 2 * 48 + 8;

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class StoreRefusalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/queen-refusal-XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  void TearDown() override {
    broker_.reset();
    fs::remove_all(directory_);
  }

  std::string data_file() const { return directory_ + "/store/data.mdb"; }

  // "" when it opened, else the refusal.
  std::string open() {
    Settings settings;
    settings.directory = directory_;
    settings.disk_high_pct = 100;
    settings.durable_every_us = 3'600'000'000;  // checkpoints come with a clean stop only
    settings.store_verify = true;
    auto opened = Broker::open(settings, *disk_, clock_, random_, Logger(null_log(), "rsm"), nullptr);
    if (!opened) return opened.error().what;
    broker_ = std::move(*opened);
    return "";
  }
  void close() {
    broker_->stop();
    broker_.reset();
  }

  machine::KvOutcome kv(machine::KvOp op) {
    std::mutex mutex;
    std::condition_variable ready;
    std::optional<Answer<machine::Outcome>> answer;
    machine::KvCommand body;
    body.ops.push_back(std::move(op));
    broker_->submit({std::string(kDefaultTenant), make_uuid_v7(clock_.wall_us(), random_), std::move(body)},
                    [&](Answer<machine::Outcome> value) {
                      std::lock_guard lock(mutex);
                      answer = std::move(value);
                      ready.notify_all();
                    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(ready.wait_for(lock, std::chrono::seconds(30), [&] { return answer.has_value(); }));
    return std::get<machine::KvOutcome>((*answer)->body);
  }
  void put(const std::string& key, const std::string& value) {
    machine::KvOp op;
    op.kind = machine::KvKind::put;
    op.ns = "ns";
    op.key = key;
    op.value = value;
    EXPECT_TRUE(kv(std::move(op)).ops.front().applied);
  }
  std::string get(const std::string& key) {
    machine::KvOp op;
    op.ns = "ns";
    op.key = key;
    const auto row = kv(std::move(op)).ops.front().row;
    return row ? row->value : "absent";
  }

  // Every file but the two that an attempt to boot may touch.
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
      const std::string name = entry.path().lexically_relative(directory_).string();
      if (entry.is_regular_file() && name != "LOCK" && name != "store/lock.mdb")
        out[name] = bytes_of(entry.path());
    }
    return out;
  }
  template <class Matcher>
  void expect_refused(Matcher matcher) {
    const auto before = contents();
    EXPECT_THAT(open(), matcher);
    EXPECT_TRUE(contents() == before) << "a refused boot changed the directory";
  }
  void change_byte(std::size_t at, char mask) {
    std::string bytes = bytes_of(data_file());
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ mask);
    std::ofstream(data_file(), std::ios::binary | std::ios::trunc) << bytes;
  }
  void write_meta(std::string_view name, std::uint64_t value) {
    store::Store changed;
    changed.put(store::Keyspace::meta, name, store::encode_meta_u64(value));
    auto file = store::open_lmdb_checkpoint(directory_ + "/store", 0, Logger(null_log(), "store"));
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->write(changed.cut()));
  }

  std::string directory_;
  std::unique_ptr<disk::Disk> disk_ = disk::make_posix_disk();
  SystemClock clock_;
  SystemRandom random_;
  std::unique_ptr<Broker> broker_;
};

// BR-6: rows whose checksums are right and that this build does not read.
TEST_F(StoreRefusalTest, RowsOfAnotherVersionAreRefusedNamingTheFormatAndWhatToDo) {
  ASSERT_EQ(open(), "");
  put("k", "1");
  close();
  store::Store changed;
  const Bytes key = store::kv_key(kDefaultTenant, "ns", "k");
  changed.put(store::Keyspace::kv, key, "\x07 row of the future");
  {
    auto file = store::open_lmdb_checkpoint(directory_ + "/store", 0, Logger(null_log(), "store"));
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->write(changed.cut()));
  }
  expect_refused(AllOf(HasSubstr("keyspace kv"), HasSubstr("version 7"), HasSubstr("store_format 1"),
                       HasSubstr(data_file()), HasSubstr("start the version of Queen that wrote it"),
                       HasSubstr("restore a backup")));
}

// BR-7
TEST_F(StoreRefusalTest, NewerClusterVersionIsRefusedNamingBoth) {
  ASSERT_EQ(open(), "");
  put("k", "1");
  close();
  write_meta(store::kMetaClusterVersion, kClusterVersion + 1);
  expect_refused(AllOf(HasSubstr(fmt::format("cluster_version {}", kClusterVersion + 1)),
                       HasSubstr(fmt::format("supports {}", kClusterVersion))));
}

// EN-8, BR-7: entries of this build may hold what an older one cannot read.
TEST_F(StoreRefusalTest, DataOfAnOlderBuildTakesTheVersionOfThisOne) {
  ASSERT_EQ(open(), "");
  close();
  write_meta(store::kMetaClusterVersion, 1);
  ASSERT_EQ(open(), "");
  put("k", "1");  // the version goes with the first checkpoint that has something to say
  close();
  auto file = store::open_lmdb_checkpoint(directory_ + "/store", 0, Logger(null_log(), "store"));
  ASSERT_TRUE(file);
  store::Store loaded;
  ASSERT_TRUE((*file)->load(loaded));
  EXPECT_EQ(loaded.get(store::Keyspace::meta, store::kMetaClusterVersion),
            store::encode_meta_u64(kClusterVersion));
}

// BR-7: the row is there from the first boot on, so that an older build can refuse.
TEST_F(StoreRefusalTest, FirstBootWritesTheClusterVersion) {
  ASSERT_EQ(open(), "");
  close();
  auto file = store::open_lmdb_checkpoint(directory_ + "/store", 0, Logger(null_log(), "store"));
  ASSERT_TRUE(file);
  store::Store loaded;
  ASSERT_TRUE((*file)->load(loaded));
  EXPECT_EQ(loaded.get(store::Keyspace::meta, store::kMetaClusterVersion),
            store::encode_meta_u64(kClusterVersion));
}

// BR-5, BR-R2
TEST_F(StoreRefusalTest, DamagedRowIsRefusedAndTheDirectoryStaysAsItIs) {
  ASSERT_EQ(open(), "");
  put("some-key", "\"a value to be found\"");
  close();
  const std::string bytes = bytes_of(data_file());
  std::size_t at = bytes.find("a value to be found");
  ASSERT_NE(at, std::string::npos);
  for (; at != std::string::npos; at = bytes.find("a value to be found", at + 1)) change_byte(at, 1);
  expect_refused(
      AllOf(HasSubstr("store keyspace kv"), HasSubstr("some-key"), HasSubstr("checksum does not match")));
}

// BR-8, BR-R2
TEST_F(StoreRefusalTest, TruncatedFileIsRefusedAndTheDirectoryStaysAsItIs) {
  ASSERT_EQ(open(), "");
  for (int i = 0; i < 200; ++i) put("key-" + std::to_string(i), "\"" + std::string(100, 'v') + "\"");
  close();
  fs::resize_file(data_file(), 3 * kPageBytes);
  expect_refused(AllOf(HasSubstr(data_file()), HasSubstr("truncated")));
}

// BR-8, RC-5: LMDB keeps two meta pages. When the newer is damaged so that it looks older, the checkpoint
// before is used. The log holds what came since, so nothing is lost; had its files been reclaimed, they would
// be missing from that checkpoint's lists (BR-10).
TEST_F(StoreRefusalTest, OlderOfTwoCheckpointsRecoversToTheSameState) {
  ASSERT_EQ(open(), "");
  put("first", "1");
  close();
  ASSERT_EQ(open(), "");
  put("first", "2");
  put("second", "1");
  close();
  const std::string bytes = bytes_of(data_file());
  const auto of_page = [&bytes](std::size_t page) {
    return load_le<std::uint64_t>(bytes.data() + page * kPageBytes + kMetaTransactionAt);
  };
  const std::size_t newest = of_page(1) > of_page(0) ? 1 : 0;
  ASSERT_EQ(of_page(newest), of_page(1 - newest) + 1);
  const std::string original = directory_ + ".original";
  fs::copy(directory_, original, fs::copy_options::recursive);
  // Every bit of the transaction number of either page: refused or the same state, never an older one.
  for (std::size_t page = 0; page < 2; ++page) {
    for (std::size_t bit = 0; bit < 64; ++bit) {
      change_byte(page * kPageBytes + kMetaTransactionAt + bit / 8, static_cast<char>(1 << bit % 8));
      const std::string refusal = open();
      if (refusal.empty()) {
        EXPECT_EQ(get("first"), "2") << page << " bit " << bit;
        EXPECT_EQ(get("second"), "1") << page << " bit " << bit;
        broker_.reset();
      } else {
        EXPECT_THAT(refusal, AllOf(HasSubstr(data_file()), HasSubstr("meta page"))) << page << " bit " << bit;
      }
      fs::remove_all(directory_);
      fs::copy(original, directory_, fs::copy_options::recursive);
    }
  }
  fs::remove_all(original);
}

}  // namespace
}  // namespace queen::broker
