#include "cli/lake_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cli/broker_log.h"

namespace queen::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

using Variables = std::map<std::string, std::string, std::less<>>;

Variables all() {
  return {{"QUEEN_S3_ENDPOINT", "http://store:9000"},
          {"QUEEN_S3_REGION", "eu-1"},
          {"QUEEN_S3_BUCKET", "lake"},
          {"QUEEN_S3_ACCESS_KEY", "AK"},
          {"QUEEN_S3_SECRET_KEY", "sesame"}};
}

Result<LakeSettings> read(const Variables& variables, LakeOptions options = {}) {
  options.queue = "a,b *";
  return lake_settings(options, [&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(LakeSettings, ComeFromTheVariablesOfTheSink) {
  auto variables = all();
  variables["QUEEN_S3_PREFIX"] = "/deep/er/";
  variables["QUEEN_S3_PATH_STYLE"] = "yes";
  variables["QUEEN_S3_SINK"] = "second";
  const auto settings = read(variables);
  ASSERT_TRUE(settings) << settings.error().what;
  EXPECT_EQ(settings->client.endpoint, "http://store:9000");
  EXPECT_EQ(settings->client.region, "eu-1");
  EXPECT_EQ(settings->client.bucket, "lake");
  EXPECT_EQ(settings->client.access_key, "AK");
  EXPECT_EQ(settings->client.secret_key, "sesame");
  EXPECT_TRUE(settings->client.path_style);
  EXPECT_EQ(settings->path.prefix, "deep/er");
  EXPECT_EQ(settings->path.queue, "a,b *");
  EXPECT_EQ(settings->path.tenant, kDefaultTenant);
  EXPECT_EQ(settings->sink, "second");
  EXPECT_FALSE(settings->align);
}

TEST(LakeSettings, AnOptionWinsOverItsVariable) {
  LakeOptions options;
  options.endpoint = "https://other";
  options.bucket = "pond";
  options.region = "us-2";
  options.prefix = "p";
  options.access_key = "BK";
  options.sink = "s";
  options.align = "day";
  options.path_style = true;
  options.tenant = "t";
  auto variables = all();
  variables["QUEEN_S3_ALIGN"] = "none";
  const auto settings = read(variables, options);
  ASSERT_TRUE(settings) << settings.error().what;
  EXPECT_EQ(settings->client.endpoint, "https://other");
  EXPECT_EQ(settings->client.bucket, "pond");
  EXPECT_EQ(settings->client.region, "us-2");
  EXPECT_EQ(settings->client.access_key, "BK");
  EXPECT_TRUE(settings->client.path_style);
  EXPECT_EQ(settings->path.prefix, "p");
  EXPECT_EQ(settings->path.tenant, "t");
  EXPECT_EQ(settings->sink, "s");
  EXPECT_EQ(settings->align, sink::Align::day);
}

TEST(LakeSettings, NameTheVariableThatIsMissingOrWrong) {
  for (const auto& [name, value] : all()) {
    auto variables = all();
    variables.erase(name);
    const auto settings = read(variables);
    ASSERT_FALSE(settings) << name;
    EXPECT_THAT(settings.error().what, testing::StartsWith(name));
    EXPECT_THAT(settings.error().what, Not(HasSubstr("sesame")));
  }
  auto variables = all();
  variables["QUEEN_S3_ENDPOINT"] = "store";
  EXPECT_THAT(read(variables).error().what, HasSubstr("QUEEN_S3_ENDPOINT=store has no scheme"));
}

TEST(LakeSettings, LookAtNoVariableThatOnlySteersASink) {
  auto variables = all();
  variables["QUEEN_S3_THREADS"] = "many";
  variables["QUEEN_S3_FORMAT"] = "xml";
  variables["QUEEN_S3_QUEUES"] = ",";
  EXPECT_TRUE(read(variables));
}

TEST(ConnectBroker, WantsAnAddressAndNoPath) {
  for (const char* url : {"", "localhost:6632", "ftp://x", "http://", "http://x/api", "https://x/y/"})
    EXPECT_EQ(connect_broker(url, std::string(kDefaultTenant), "q").error().code, Errc::invalid) << url;
  for (const char* url : {"http://localhost:6632", "http://localhost:6632/", "https://broker"})
    EXPECT_TRUE(connect_broker(url, std::string(kDefaultTenant), "q")) << url;
}

TEST(ConnectBroker, SaysWhenNobodyAnswers) {
  const auto log = connect_broker("http://127.0.0.1:1", std::string(kDefaultTenant), "q");
  const auto partitions = (*log)->partitions();
  ASSERT_FALSE(partitions);
  EXPECT_EQ(partitions.error().code, Errc::unavailable);
  EXPECT_THAT(partitions.error().what, HasSubstr("http://127.0.0.1:1/api/v1/partitions/changed"));
}

}  // namespace
}  // namespace queen::cli
