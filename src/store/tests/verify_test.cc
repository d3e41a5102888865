// Verification of the checkpoint file without LMDB and without a node.
#include "store/verify.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "store/keys.h"
#include "store/row_check.h"
#include "store/rows.h"
#include "store/tests/lmdb_folder.h"

namespace queen::store {
namespace {

struct Outcome {
  FindingList found;
  StoreFacts facts;
  std::map<std::string, std::size_t> rows;  // good ones by table
};

Outcome verify(const LmdbFolder& folder) {
  Outcome out;
  auto facts = verify_store_file(folder.store(), out.found, [&](const StoredRow& row) {
    ++out.rows[std::string(name_of(row.keyspace))];
  });
  EXPECT_TRUE(facts) << facts.error().what;
  if (facts) out.facts = *facts;
  return out;
}

class VerifyStore : public ::testing::Test {
 protected:
  void SetUp() override {
    auto file = open_small(folder_);
    ASSERT_TRUE(file) << file.error().what;
    for (int i = 0; i < 300; ++i)
      store_.put(Keyspace::queues, queue_key("tenant", "queue-" + std::to_string(i)), QueueRow{}.encode());
    KvRow big;
    big.value = Bytes(9000, 'b');
    store_.put(Keyspace::kv, kv_key("tenant", "ns", "big"), big.encode());
    ASSERT_TRUE((*file)->write(store_.cut()));
  }
  void flip(std::size_t at) {
    std::fstream file(folder_.file(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }
  std::string bytes() const {
    std::ifstream file(folder_.file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Everywhere in the file: also in copies of pages that are no longer used.
  void flip_every(const std::string& text) {
    const std::string all = bytes();
    for (auto at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) flip(at);
  }

  LmdbFolder folder_;
  Store store_;
};

TEST_F(VerifyStore, GivesEveryRowOfASoundFileAndFindsNothing) {
  const auto before = bytes();
  const auto seen = verify(folder_);
  EXPECT_TRUE(seen.found.all.empty());
  EXPECT_TRUE(seen.facts.complete);
  EXPECT_EQ(seen.rows.at("queues"), 300u);
  EXPECT_EQ(seen.rows.at("kv"), 1u);
  EXPECT_TRUE(bytes() == before);
}

TEST_F(VerifyStore, AFileThatIsNotThereIsNoDamage) {
  std::filesystem::remove(folder_.file());
  const auto seen = verify(folder_);
  EXPECT_TRUE(seen.found.all.empty());
  EXPECT_FALSE(seen.facts.there);
  EXPECT_FALSE(std::filesystem::exists(folder_.file()));
}

// BR-5: a boot stops at the first.
TEST_F(VerifyStore, NamesEveryDamagedRowAndGivesTheOthers) {
  flip_every(Bytes("queue-17\0", 9));
  flip_every("queue-205");
  const auto seen = verify(folder_);
  ASSERT_GE(seen.found.all.size(), 2u);
  for (const auto& finding : seen.found.all) {
    EXPECT_EQ(finding.rule, "BR-5");
    EXPECT_EQ(finding.boot, Boot::refused);
    EXPECT_EQ(finding.keyspace, "queues");
  }
  EXPECT_EQ(seen.rows.at("queues"), 298u);
  EXPECT_FALSE(seen.facts.complete);
}

// BR-8: what hangs below other pages is still read.
TEST_F(VerifyStore, ADamagedPageHidesOnlyItsOwnRows) {
  const std::string all = bytes();
  const std::size_t page = all.find("queue-250") / 4096 * 4096;
  flip(page);  // the number that the page carries
  const auto seen = verify(folder_);
  ASSERT_FALSE(seen.found.all.empty());
  EXPECT_EQ(seen.found.all.front().rule, "BR-8");
  EXPECT_EQ(seen.found.all.front().position, page);
  EXPECT_GT(seen.rows.at("queues"), 200u);
  EXPECT_LT(seen.rows.at("queues"), 300u);
}

TEST(CheckRow, RefusesKeysAndValuesOfOtherTables) {
  EXPECT_TRUE(check_row(Keyspace::queues, queue_key("t", "q"), QueueRow{}.encode()));
  EXPECT_FALSE(check_row(Keyspace::queues, "t", QueueRow{}.encode()));
  EXPECT_FALSE(check_row(Keyspace::queues, queue_key("t", "q"), KvRow{}.encode()));
  EXPECT_FALSE(check_row(Keyspace::queue_partitions, queue_partition_key("t", "q", Pid{1}), "x"));
  EXPECT_FALSE(check_row(Keyspace::files, "k", ""));
  EXPECT_FALSE(check_row(Keyspace::meta, meta_qlog_files({3}), encode_meta_u32_list({2, 1})));
  EXPECT_TRUE(check_row(Keyspace::meta, meta_qlog_files({3}), encode_meta_u32_list({1, 2})));
}

}  // namespace
}  // namespace queen::store
