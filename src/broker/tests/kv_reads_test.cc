// The console's reads of the key/value store, over a store in RAM.
#include "broker/kv_reads.h"

#include <gtest/gtest.h>

#include "machine/effects.h"
#include "machine/planner.h"

namespace queen::broker {
namespace {

const std::string kOwner{kDefaultTenant};
const std::string kStranger = "018f2b3c-0000-7000-8000-0000000000aa";

class KvReadsTest : public ::testing::Test {
 protected:
  void put(const std::string& ns, const std::string& key, const std::string& value = "1",
           std::optional<std::int64_t> expires_at = std::nullopt, const std::string& tenant = kOwner) {
    store::KvRow row;
    row.value = value;
    row.version = ++version_;
    row.expires_at = expires_at;
    const auto gate = store_.write_gate();
    const auto status =
        machine::run_effect(store_, machine::KvPut{tenant, ns, key, row}, EntryIndex{version_}, 0, 1);
    ASSERT_TRUE(status) << status.error().what;
  }
  // The keys of a page, those that are expired with a `!`, and `…` when there are more.
  std::string page(const KvListQuery& query, std::int64_t now = 100, const std::string& tenant = kOwner) {
    std::string out;
    const KvListPage listed = reads_.list(tenant, query, now);
    for (const KvListed& row : listed.rows) out += row.key + (row.expired ? "! " : " ");
    return out + (listed.truncated ? "…" : "");
  }
  static KvListQuery of(const std::string& ns, const std::string& prefix = "",
                        const std::string& after = "") {
    KvListQuery out;
    out.ns = ns;
    out.prefix = prefix;
    out.after = after;
    return out;
  }

  store::Store store_;
  StateReads state_{store_};
  KvReads reads_{state_};
  std::uint64_t version_ = 0;
};

TEST_F(KvReadsTest, CountsEveryStoredRowByNamespace) {
  for (const char* key : {"a", "b", "c"}) put("carts", key);
  put("carts", "expired", "1", 50);
  put("a.b", "k");
  put("carts2", "k");
  put("carts", "k", "1", std::nullopt, kStranger);
  std::string found;
  for (const KvNamespace& one : reads_.namespaces(kOwner))
    found += one.name + ":" + std::to_string(one.keys) + " ";
  EXPECT_EQ(found, "a.b:1 carts:4 carts2:1 ");
  EXPECT_TRUE(reads_.namespaces("018f2b3c-0000-7000-8000-0000000000bb").empty());
}

TEST_F(KvReadsTest, WalksPagesInByteOrder) {
  for (const char* key : {"a", "a/1", "a/10", "a/2", "b", "\xC3\xA9"}) put("n", key);
  put("m", "a/0");
  KvListQuery query = of("n", "a/");
  query.limit = 2;
  EXPECT_EQ(page(query), "a/1 a/10 …");
  query.after = "a/10";
  EXPECT_EQ(page(query), "a/2 ");
  query.after = "a/2";
  EXPECT_EQ(page(query), "");
  EXPECT_EQ(page(of("n")), "a a/1 a/10 a/2 b \xC3\xA9 ");
  EXPECT_EQ(page(of("n", "a/", "A")), "a/1 a/10 a/2 ") << "a cursor before the prefix";
  EXPECT_EQ(page(of("n", "a/", "b")), "") << "a cursor behind the prefix";
  EXPECT_EQ(page(of("none")), "");
  EXPECT_EQ(page(of("n"), 100, kStranger), "");
}

TEST_F(KvReadsTest, ShowsExpiredRowsOnlyWhenAsked) {
  put("n", "a", "1", 100);
  put("n", "b", "1", 101);
  put("n", "c");
  EXPECT_EQ(page(of("n")), "b c ");
  KvListQuery all = of("n");
  all.include_expired = true;
  EXPECT_EQ(page(all), "a! b c ");
  EXPECT_EQ(page(all, 99), "a b c ");
}

// KV-16: what the planner judged expired is never shown alive, whatever this node's clock says.
TEST_F(KvReadsTest, JudgesByTheGreatestStampWhenTheClockIsBehind) {
  put("n", "a", "1", 100);
  {
    const auto gate = store_.write_gate();
    store_.put(store::Keyspace::meta, store::kMetaLastNowUs, store::encode_meta_i64(100));
  }
  EXPECT_EQ(page(of("n"), 5), "");
}

TEST_F(KvReadsTest, PassesOverMoreExpiredRowsThanAStepHolds) {
  for (int i = 0; i < 3000; ++i) put("n", "k" + std::to_string(i), "1", 50);
  put("n", "z");
  EXPECT_EQ(page(of("n")), "z ");
}

TEST_F(KvReadsTest, CountsTheBytesOfItsPageAndEndsAtFourMebibytes) {
  for (const char* key : {"a", "b", "c", "d", "e", "f"}) put("n", key, std::string(1 << 20, '1'));
  const KvListPage values = reads_.list(kOwner, of("n"), 1);
  EXPECT_EQ(values.rows.size(), 4U);
  EXPECT_EQ(values.bytes, 4U * ((1 << 20) + 1));
  EXPECT_TRUE(values.truncated);
  KvListQuery keys = of("n");
  keys.values = false;
  const KvListPage names = reads_.list(kOwner, keys, 1);
  EXPECT_EQ(names.rows.size(), 6U);
  EXPECT_EQ(names.bytes, 6U);
  EXPECT_FALSE(names.truncated);
}

}  // namespace
}  // namespace queen::broker
