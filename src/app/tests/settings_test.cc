#include "app/settings.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "source_dir.h"

namespace queen::app {
namespace {

Result<NodeSettings> read(const std::map<std::string, std::string>& environment) {
  std::vector<std::string> names;
  for (const auto& [name, value] : environment) names.push_back(name);
  const auto lookup = [&environment](std::string_view name) -> std::optional<std::string> {
    const auto found = environment.find(std::string(name));
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  };
  return read_settings(lookup, names, 2, "host-4", 7);
}

std::string refusal(const std::map<std::string, std::string>& environment) {
  const auto settings = read(environment);
  return settings ? "" : settings.error().what;
}

TEST(NodeSettings, DocumentationIsMadeFromTheTable) {
  std::ifstream file(source_dir() + "/docs/configuration.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), config::as_markdown(all_rows()))
      << "run `queen --settings-markdown > docs/configuration.md`";
}

TEST(NodeSettings, NamesAreDistinct) {
  std::map<std::string, int> seen;
  for (const auto& row : all_rows()) EXPECT_EQ(++seen[row.name], 1) << row.name;
}

TEST(NodeSettings, RefusalsNameVariableAndValue) {
  const std::vector<std::pair<std::map<std::string, std::string>, std::string>> cases = {
      {{{"QUEEN_BIND_ADDR", "0.0.0.0:7000"}}, "QUEEN_BIND_ADDR=0.0.0.0:7000"},
      {{{"QUEEN_BIND_ADDR", ""}}, "QUEEN_BIND_ADDR="},
      {{{"QUEEN_TENANCY_HEADER", "1"}}, "QUEEN_KV_TRUSTED_PROXY"},
      {{{"QUEEN_RAFT_PEERS", "1=a:1/a:2"}}, "QUEEN_RAFT_PEERS=1=a:1/a:2"},
      {{{"QUEEN_RAFT_REPLICATOR", "raft"}}, "QUEEN_RAFT_REPLICATOR=raft"},
      {{{"QUEEN_RAFT_REPLICATOR", "paper"}}, "QUEEN_RAFT_REPLICATOR=paper"},
      {{{"QUEEN_RAFT_NODE_ID", "0"}}, "QUEEN_RAFT_NODE_ID=0"},
      {{{"QUEEN_S3_EMBEDDED", "perhaps"}}, "QUEEN_S3_EMBEDDED=perhaps"},
      {{{"QUEEN_S3_EMBEDDED", "true"}, {"QUEEN_S3_PARTITIONS", "a"}}, "QUEEN_S3_PARTITIONS"},
  };
  for (const auto& [environment, wanted] : cases) {
    EXPECT_NE(refusal(environment).find(wanted), std::string::npos)
        << wanted << " in: " << refusal(environment);
  }
}

TEST(NodeSettings, ABucketOfMetricsBelowASecondTakesTheDefault) {
  const auto small = read({{"METRICS_FLUSH_MS", "500"}});
  ASSERT_TRUE(small);
  EXPECT_EQ(small->broker.meter.flush_us, 60'000'000);
  ASSERT_EQ(small->warnings.size(), 1U);
  EXPECT_EQ(small->warnings[0].name, "METRICS_FLUSH_MS");
  const auto taken = read({{"METRICS_FLUSH_MS", "1000"}, {"HOSTNAME", "node-7"}});
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->broker.meter.flush_us, 1'000'000);
  EXPECT_TRUE(taken->warnings.empty());
  EXPECT_EQ(taken->api.node_name, "node-7");
  EXPECT_EQ(read({})->broker.meter.flush_us, 60'000'000);
}

TEST(NodeSettings, EncryptionKeyIsReadOnceAndNeverQuoted) {
  const std::string key(64, '5');
  const auto set = read({{"QUEEN_ENCRYPTION_KEY", ' ' + key}});
  ASSERT_TRUE(set.has_value());
  EXPECT_NE(set->cipher, nullptr);
  EXPECT_EQ(set->api.cipher, set->cipher.get());
  EXPECT_EQ(set->broker.cipher, set->cipher.get());
  EXPECT_EQ(set->encryption_key_shown, "<set:64 chars>");
  for (const auto& [heading, line] : set->shown) EXPECT_EQ(line.find(key), std::string::npos) << heading;
  for (const char* blank : {"", "  "}) {
    const auto unset = read({{"QUEEN_ENCRYPTION_KEY", blank}});
    ASSERT_TRUE(unset.has_value());
    EXPECT_EQ(unset->cipher, nullptr);
    EXPECT_EQ(unset->encryption_key_shown, "<unset>");
  }
  const std::string why = refusal({{"QUEEN_ENCRYPTION_KEY", key + "5"}});
  EXPECT_NE(why.find("QUEEN_ENCRYPTION_KEY"), std::string::npos);
  EXPECT_EQ(why.find("5555"), std::string::npos) << why;
}

TEST(NodeSettings, SinkIsReadOnlyWhenItIsOn) {
  EXPECT_TRUE(read({{"QUEEN_S3_EMBEDDED", "false"}, {"QUEEN_S3_MAX_WINDOW_MS", "50"}}));
  const std::map<std::string, std::string> on = {
      {"QUEEN_S3_EMBEDDED", "true"}, {"QUEEN_S3_QUEUES", "orders"}, {"QUEEN_S3_ENDPOINT", "http://h"},
      {"QUEEN_S3_REGION", "r"},      {"QUEEN_S3_BUCKET", "lake"},   {"QUEEN_S3_ACCESS_KEY", "k"},
      {"QUEEN_S3_SECRET_KEY", "s"}};
  EXPECT_TRUE(read(on)) << refusal(on);
  auto bad = on;
  bad["QUEEN_S3_MAX_WINDOW_MS"] = "50";
  EXPECT_NE(refusal(bad).find("QUEEN_S3_MAX_WINDOW_MS=50"), std::string::npos);
  EXPECT_NE(refusal(bad).find("100..=86400000"), std::string::npos);
}

TEST(NodeSettings, OlderNameOfTheTimeoutYields) {
  EXPECT_EQ(read({{"POP_DEFAULT_TIMEOUT_MS", "9000"}})->api.default_timeout_ms, 9000);
  EXPECT_EQ(read({{"DEFAULT_TIMEOUT", "1500"}, {"POP_DEFAULT_TIMEOUT_MS", "9000"}})->api.default_timeout_ms,
            1500);
}

TEST(NodeSettings, SubscriptionModeTakesItsSpellings) {
  using Mode = machine::Subscription::Mode;
  EXPECT_EQ(read({})->api.default_subscription, Mode::fresh);
  EXPECT_EQ(read({{"DEFAULT_SUBSCRIPTION_MODE", " New-Only "}})->api.default_subscription, Mode::fresh);
  EXPECT_EQ(read({{"DEFAULT_SUBSCRIPTION_MODE", "latest"}})->api.default_subscription, Mode::all);
}

TEST(NodeSettings, OrdinalNodeIdComesFromTheHostName) {
  EXPECT_TRUE(read({{"QUEEN_RAFT_NODE_ID", "ordinal"}}));
  EXPECT_NE(refusal({{"QUEEN_RAFT_NODE_ID", "ordinal"}, {"HOSTNAME", "broker"}}).find("QUEEN_RAFT_NODE_ID"),
            std::string::npos);
}

TEST(NodeSettings, UnknownVariablesAreToldWithTheNearestName) {
  const auto settings = read({{"QUEEN_RAFT_DIRECTORY", "/x"}});
  ASSERT_TRUE(settings);
  ASSERT_EQ(settings->warnings.size(), 1U);
  EXPECT_EQ(settings->warnings[0].name, "QUEEN_RAFT_DIRECTORY");
}

}  // namespace
}  // namespace queen::app
