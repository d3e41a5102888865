// The sinks of several tenants on one node: rows, phases, restarts, shared budget and metrics (s3-sink.md
// 20, 21.3; acceptance list G12, G13, J5).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "sink/tests/tenants_rig.h"

namespace queen::sink::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kDefault(kDefaultTenant);

void push_to_all(Cluster& cluster) {
  for (const std::string& tenant : {kDefault, std::string(kTenantA), std::string(kTenantB)})
    cluster.broker(tenant).push(kQueue, "p", "\"of " + tenant + "\"");
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// G12
TEST(TenantSinks, ShareABucketAnExpositionAndABudgetWithoutSharingAKey) {
  Cluster cluster;
  push_to_all(cluster);
  cluster.set_row("1", kTenantA, 7, "lake");
  cluster.set_row("2", kTenantB, 7, "lake");
  TenantNode node(cluster, quick_unit());
  ASSERT_TRUE(cluster.run_until([&] {
    return cluster.committed_k(kDefault) == 1 && cluster.committed_k(kTenantA) == 1 &&
           cluster.committed_k(kTenantB) == 1;
  }));
  std::map<std::string, int> data;
  for (const auto& [key, body] : cluster.bucket("lake").objects()) {
    const auto at = key.find("tenant=") + 7;
    if (!key.starts_with("queen/_queen/")) ++data[key.substr(at, 36)];
  }
  EXPECT_EQ(data, (std::map<std::string, int>{{kDefault, 1}, {kTenantA, 1}, {kTenantB, 1}}));

  const std::string text = node.metrics();
  EXPECT_EQ(count_of(text, "# TYPE queen_s3_windows_committed_total counter\n"), 1U);
  EXPECT_THAT(text, AllOf(HasSubstr("queen_s3_windows_committed_total{queue=\"rides\"} 1\n"
                                    "queen_s3_windows_committed_total{tenant=\"aaaaaaaa-0000-4000-8000-"
                                    "000000000001\",queue=\"rides\"} 1\n"),
                          HasSubstr("queen_s3_lag_seconds{tenant=\"bbbbbbbb-"),
                          HasSubstr("\nqueen_s3_buffer_bytes "), HasSubstr("\nqueen_s3_safe_lag_seconds ")));
  EXPECT_EQ(count_of(node.status(), R"("limitBytes":536870912)"), 3U);

  cluster.control_plane.rows.erase("#2");
  EXPECT_TRUE(
      cluster.run_until([&] { return node.metrics().find("bbbbbbbb") == std::string::npos; }, 60 * kSecond))
      << "every series of a sink that is gone goes";
  EXPECT_THAT(node.status(), AllOf(Not(HasSubstr("bbbbbbbb")), HasSubstr("aaaaaaaa")));
  EXPECT_TRUE(node.drain());
  EXPECT_THAT(node.metrics(),
              AllOf(Not(HasSubstr("queen_s3_lag_seconds{")), Not(HasSubstr("safe_lag_seconds 0")),
                    HasSubstr("queen_s3_windows_committed_total{queue=\"rides\"} 1\n")))
      << "a stopped sink keeps its counters";
}

// J5
TEST(TenantSinks, RunAsTheirRowsAndStandingsSay) {
  Cluster cluster;
  push_to_all(cluster);
  cluster.set_row("1", kTenantA, 7, "lake-a");
  cluster.set_row("2", kTenantB, 7, "lake-b", kOtherKeyHex);
  for (const auto& [cluster_id, tenant] :
       {std::pair{"3", "cccccccc-suspended"}, {"4", "dddddddd-owner"}, {"5", "eeeeeeee-blocked"}})
    cluster.set_row(cluster_id, tenant, 7, "lake-c");
  cluster.standing("3").cluster = Standing::suspended;
  cluster.standing("4").owner = Standing::suspended;
  cluster.standing("5").owner = Standing::push_blocked;
  cluster.set_row("6", kDefault, 7, "lake-d");
  TenantNode node(cluster, quick_unit());
  ASSERT_TRUE(cluster.run_until(
      [&] { return cluster.committed_k(kDefault) == 1 && cluster.committed_k(kTenantA) == 1; }));
  const std::string status = node.status();
  EXPECT_THAT(status, HasSubstr(R"("source":"cp","cluster":"slug-1","phase":"running","error":null)"));
  EXPECT_THAT(
      status,
      HasSubstr(R"("cluster":"slug-2","phase":"error","error":"the secret key of the sink was not sealed )"
                R"(with the QUEEN_ENCRYPTION_KEY of this node")"));
  EXPECT_THAT(status, HasSubstr(R"("tenant":"eeeeeeee-blocked")"));
  EXPECT_THAT(status, AllOf(Not(HasSubstr("cccccccc")), Not(HasSubstr("dddddddd")), Not(HasSubstr("slug-6")),
                            Not(HasSubstr("hush-hush"))));
  EXPECT_EQ(cluster.broker(kTenantB).kv_calls, 0U)
      << "a node that cannot open the secret runs none of the queues";
  EXPECT_THAT(node.secrets, Each(std::string("hush-hush")));

  cluster.set_row("1", kTenantA, 8, "lake-a", kKeyHex, false);
  cluster.control_plane.rows.erase("#2");
  EXPECT_TRUE(
      cluster.run_until([&] { return node.status().find("slug-1") == std::string::npos; }, 60 * kSecond));
  EXPECT_THAT(node.status(), Not(HasSubstr("slug-2")));
  EXPECT_THAT(node.metrics(), Not(HasSubstr("aaaaaaaa")));
  EXPECT_FALSE(cluster.broker(kTenantA).live(lease_key("default", kQueue)))
      << "a disabled sink drained first";
  EXPECT_TRUE(node.drain(30 * kSecond)) << "all stops inside the grace";
}

TEST(TenantSinks, ARowThatMovedBuildsTheSinkAnewWithItsCountersAndItsPointer) {
  Cluster cluster;
  cluster.broker(kTenantA).push(kQueue, "p", "1");
  cluster.set_row("1", kTenantA, 7, "lake-a");
  TenantNode node(cluster, std::nullopt);
  ASSERT_TRUE(cluster.run_until([&] { return cluster.committed_k(kTenantA) == 1; }));
  cluster.standing("1").cluster = Standing::push_blocked;
  cluster.executor.run_for(12 * kSecond);
  EXPECT_EQ(node.secrets.size(), 1U) << "a change between active and push_blocked builds nothing";
  cluster.set_row("1", kTenantA, 8, "lake-a", kKeyHex, true, R"(,"compression":"none")");
  cluster.broker(kTenantA).push(kQueue, "p", "2");
  ASSERT_TRUE(cluster.run_until([&] { return node.secrets.size() == 2; }, 60 * kSecond));
  ASSERT_TRUE(cluster.run_until([&] { return cluster.committed_k(kTenantA) == 2; }));
  EXPECT_THAT(node.metrics(), HasSubstr("000000000001\",queue=\"rides\"} 2\n"));
  std::size_t records = 0;
  for (const auto& [key, body] : cluster.bucket("lake-a").objects())
    records += !key.starts_with("queen/_queen/");
  EXPECT_EQ(records, 2U) << "no window twice";
}

TEST(TenantSinks, AFailedReadOfTheRowsChangesNothingAndIsTold) {
  Cluster cluster;
  cluster.broker(kTenantA).push(kQueue, "p", "1");
  cluster.set_row("1", kTenantA, 7, "lake-a");
  cluster.control_plane.rows["#0"] = {.key = "#0", .value = "{}", .standing = {}};
  TenantNode node(cluster, std::nullopt);
  ASSERT_TRUE(cluster.run_until([&] { return cluster.committed_k(kTenantA) == 1; }))
      << "a row that is none is skipped";
  EXPECT_THAT(node.status(), HasSubstr(R"("controlPlane":{"error":null})"));
  cluster.control_plane.fail = 2;
  ASSERT_TRUE(cluster.run_until(
      [&] {
        return node.status().find(R"("controlPlane":{"error":"the sinks of tenants: status 503)") !=
               std::string::npos;
      },
      12 * kSecond));
  EXPECT_THAT(node.status(), HasSubstr(R"("cluster":"slug-1","phase":"running")"));
  EXPECT_TRUE(cluster.run_until(
      [&] { return node.status().find(R"("controlPlane":{"error":null})") != std::string::npos; },
      12 * kSecond));
  EXPECT_EQ(node.secrets.size(), 1U);
}

TEST(TenantSinks, OfTwoClustersOfATenantTheFirstHasTheSink) {
  Cluster cluster;
  cluster.set_row("1", kTenantA, 7, "lake-a");
  cluster.set_row("2", kTenantA, 9, "lake-b");
  TenantNode node(cluster, std::nullopt);
  cluster.executor.run_for(11 * kSecond);
  EXPECT_THAT(node.status(), AllOf(HasSubstr("slug-1"), Not(HasSubstr("slug-2"))));
}

// A broker whose presence rows cannot be written: the call throws, as one does when memory is gone.
class Throwing final : public BrokerPort {
 public:
  explicit Throwing(BrokerPort& to) : to_(to) {}
  void fetch(std::string queue, std::vector<FetchRequest> requests, CallDone<FetchAnswer> done) override {
    to_.fetch(std::move(queue), std::move(requests), std::move(done));
  }
  void changed(std::string queue, ChangedRequest request, CallDone<ChangedPage> done) override {
    to_.changed(std::move(queue), std::move(request), std::move(done));
  }
  void kv(std::vector<machine::KvOp> ops, CallDone<machine::KvOutcome> done) override {
    if (ops.front().key.starts_with(presence_prefix("default")))
      throw std::runtime_error("no memory for presence");
    to_.kv(std::move(ops), std::move(done));
  }
  void list_queues(CallDone<std::vector<std::string>> done) override { to_.list_queues(std::move(done)); }

 private:
  BrokerPort& to_;
};

TEST(HostedUnit, ARunThatEndsUnaskedIsBuiltAnewAfterAGrowingWait) {
  Cluster cluster;
  TenantNode node(cluster, quick_unit());
  bool broken = true;
  node.broker_of = [&](const std::string& tenant) -> std::unique_ptr<BrokerPort> {
    if (broken) return std::make_unique<Throwing>(cluster.broker(tenant));
    return std::make_unique<BorrowedPort>(cluster.broker(tenant));
  };
  const auto shows = [&](const std::string& part) {
    return cluster.run_until([&] { return node.status().find(part) != std::string::npos; }, 60 * kSecond);
  };
  EXPECT_TRUE(shows(R"("phase":"backoff","error":null,"restarts":1,"lastExit":"no memory for presence")"));
  EXPECT_TRUE(shows(R"("backoffMs":1000)"));
  EXPECT_TRUE(shows(R"("restarts":2)"));
  EXPECT_TRUE(shows(R"("backoffMs":2000)"));
  for (const char* wait : {"4000", "8000", "16000", "30000"})
    EXPECT_TRUE(shows(fmt::format("\"backoffMs\":{}", wait)));
  broken = false;
  cluster.broker(kDefault).push(kQueue, "p", "1");
  EXPECT_TRUE(cluster.run_until([&] { return cluster.committed_k(kDefault) == 1; }, 120 * kSecond));
  EXPECT_TRUE(shows(R"("phase":"running")"));
}

// G13
TEST(TenantSinks, EveryLineOfATenantNamesItAndEveryLineOfAQueueTheQueue) {
  Cluster cluster;
  push_to_all(cluster);
  cluster.set_row("1", kTenantA, 7, "lake-a");
  RecordingLog log;
  {
    TenantNode node(cluster, quick_unit(), log);
    ASSERT_TRUE(cluster.run_until(
        [&] { return cluster.committed_k(kDefault) == 1 && cluster.committed_k(kTenantA) == 1; }));
  }
  std::map<std::string, int> committed, of_sinks;
  for (const LogLine& line : log.lines) {
    const auto tenant = line.fields.find("tenant");
    const std::string whose = tenant == line.fields.end() ? "" : tenant->second;
    if (line.event.starts_with("queue_") || line.event == "window committed") {
      EXPECT_EQ(line.fields.count("queue"), 1U) << line.event;
    }
    if (line.event == "window committed") ++committed[whose];
    if (line.event == "sink_stopped" || line.event.starts_with("queen-s3 0.1.0")) ++of_sinks[whose];
  }
  EXPECT_EQ(committed, (std::map<std::string, int>{{"", 1}, {kTenantA, 1}}));
  EXPECT_EQ(of_sinks, (std::map<std::string, int>{{"", 2}, {kTenantA, 2}}));
}

TEST(SinkRows, AreReadAsStoredAndRefusedByTheNameOfTheField) {
  const auto row = parse_sink_row(
      R"({"cluster_id":"c","broker_tenant":"t","enabled":false,"config":{"queues":"*"},"secret_key_sealed":"s","updated_at_us":5,"more":1})");
  ASSERT_TRUE(row) << row.error().what;
  EXPECT_EQ(row->config, R"({"queues":"*"})");
  EXPECT_FALSE(row->enabled);
  EXPECT_EQ(row->updated_at_us, 5);
  for (
      const auto& [text, says] :
      {std::pair{"7", "not a JSON object"},
       {R"({"cluster_id":"c","broker_tenant":"t","enabled":1,"config":{},"secret_key_sealed":"s","updated_at_us":5})",
        "enabled"},
       {R"({"cluster_id":"c","broker_tenant":"t","enabled":true,"config":[],"secret_key_sealed":"s","updated_at_us":5})",
        "config"},
       {R"({"cluster_id":"c","broker_tenant":"","enabled":true,"config":{},"secret_key_sealed":"s","updated_at_us":5})",
        "no cluster or no tenant"}}) {
    const auto refused = parse_sink_row(text);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().what, HasSubstr(says));
  }
}

TEST(SinkRows, AreReadFromTheKvOfTheProxyInPages) {
  Cluster cluster;
  FakeBroker& proxy = cluster.broker(std::string(kProxyTenant));
  proxy.put_behind("#c1", "one");
  proxy.put_behind("other", "none of ours");
  const auto rows = make_kv_control_plane(proxy, cluster.executor, [](const std::string& cluster_id) {
    return ClusterStanding{.slug = cluster_id, .cluster = Standing::active, .owner = Standing::active};
  });
  std::optional<SinkRowPage> page;
  auto read = [&]() -> Task<void> {
    auto answer = co_await rows->page("");
    if (answer) page = std::move(*answer);
  };
  spawn(cluster.executor, read());
  cluster.executor.run_for(kSecond);
  ASSERT_TRUE(page);
  ASSERT_EQ(page->rows.size(), 1U);
  EXPECT_EQ(page->rows[0].value, "one");
  EXPECT_EQ(page->rows[0].standing.slug, "c1");
  EXPECT_FALSE(page->next);
}

}  // namespace
}  // namespace queen::sink::test
