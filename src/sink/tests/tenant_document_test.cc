// The document of a tenant's sink is read as the environment is (s3-sink.md 4.5; acceptance list A8).
#include "sink/tenant_document.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "sink/settings_table.h"

namespace queen::sink {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Fields = std::map<std::string, std::string>;  // name to JSON

Fields minimal() {
  return {{"queues", "\"orders\""},
          {"endpoint", "\"http://minio:9000\""},
          {"region", "\"us-east-1\""},
          {"bucket", "\"lake\""},
          {"accessKey", "\"AKIDEXAMPLE\""}};
}

std::string text_of(const Fields& fields) {
  std::string out = "{";
  for (const auto& [name, json] : fields)
    out += fmt::format("{}\"{}\":{}", out.size() > 1 ? "," : "", name, json);
  return out + "}";
}

Result<UnitSettings> read(const std::string& config, std::string secret = "hush-hush") {
  return read_tenant_document({.tenant = "t-1", .config = config, .secret_key = std::move(secret)});
}

Fields with(const std::string& name, const std::string& json) {
  Fields fields = minimal();
  fields[name] = json;
  return fields;
}

std::string refusal(const std::string& config) {
  const auto got = read(config);
  return got ? "no refusal" : got.error().what;
}

// What the environment reads from the same values.
UnitSettings from_environment(const std::map<std::string, std::string, std::less<>>& variables) {
  const Lookup lookup = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
  auto read = read_settings(lookup, {.node_id = 1, .cores = 1, .os_host_name = "h", .random_bits = 1});
  EXPECT_TRUE(read) << read.error().what;
  return *read->environment;
}

TEST(TenantDocument, EveryFieldLandsOnTheSettingOfItsVariable) {
  const std::map<std::string, std::string> texts = {
      {"queues", "a, b"},          {"endpoint", "HTTPS://s3.example:8443/"},
      {"region", "eu-1"},          {"bucket", "lake"},
      {"prefix", "/root/x/"},      {"accessKey", "AK"},
      {"pathStyle", "yes"},        {"sse", "kms"},
      {"sseKmsKeyId", "arn:1234"}, {"format", "Parquet"},
      {"compression", "gz"},       {"parquetCodec", "snap"},
      {"layout", "per_partition"}, {"align", "Daily"},
      {"start", "beginning"},      {"targetMb", "7"},
      {"maxWindowMs", "1000"},     {"sink", "blue"}};
  std::map<std::string, std::string, std::less<>> variables = {{"QUEEN_S3_SECRET_KEY", "hush-hush"}};
  Fields fields;
  std::size_t listed = 0;
  for (const SettingRow& row : kSettingRows) {
    if (row.scope != SettingScope::queues || *row.field == '\0') continue;
    ++listed;
    const auto found = texts.find(row.field);
    ASSERT_NE(found, texts.end()) << row.field;
    variables[row.name] = found->second;
    fields[row.field] = "\"" + found->second + "\"";
  }
  EXPECT_EQ(listed, 18U);
  const auto got = read(text_of(fields));
  ASSERT_TRUE(got) << got.error().what;
  const UnitSettings expected = from_environment(variables);
  const NodeSettings node;
  EXPECT_EQ(start_line(*got, node, "t", "1"), start_line(expected, node, "t", "1"));
  EXPECT_EQ(got->access_key, expected.access_key);
  EXPECT_EQ(got->secret_key, expected.secret_key);
  EXPECT_EQ(got->sse_kms_key_id, "arn:1234");
}

TEST(TenantDocument, TakesNumbersBooleansNullsAndBlanks) {
  Fields fields = minimal();
  fields["targetMb"] = "5120";
  fields["maxWindowMs"] = "null";
  fields["pathStyle"] = "true";
  fields["prefix"] = "\"  \"";
  const auto got = read(text_of(fields));
  ASSERT_TRUE(got) << got.error().what;
  EXPECT_EQ(got->target_bytes, 5120ULL << 20);
  EXPECT_EQ(got->max_window_us, 300'000'000);
  EXPECT_TRUE(got->path_style);
  EXPECT_EQ(got->prefix, "queen");
}

TEST(TenantDocument, QueuesAreAStarACommaListOrAList) {
  EXPECT_TRUE(read(text_of(with("queues", "\" * \"")))->all_queues);
  EXPECT_EQ(read(text_of(with("queues", "\"a, b,,a\"")))->queues, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(read(text_of(with("queues", R"(["b"," a ","b"])")))->queues,
            (std::vector<std::string>{"b", "a"}));
}

struct Bad {
  const char* name;
  const char* json;
  const char* says;
};
class BadField : public ::testing::TestWithParam<Bad> {};
TEST_P(BadField, IsRefusedByTheNameOfTheField) {
  const Bad& bad = GetParam();
  const std::string sentence = refusal(text_of(with(bad.name, bad.json)));
  EXPECT_THAT(sentence, AllOf(HasSubstr(bad.name), HasSubstr(bad.says), Not(HasSubstr("hush-hush")),
                              Not(HasSubstr("AKIDEXAMPLE"))));
  const bool node_wide = std::string_view(bad.says).starts_with("is node-wide");
  EXPECT_EQ(sentence.find("QUEEN_") != std::string::npos, node_wide) << sentence;
}
INSTANTIATE_TEST_SUITE_P(
    All, BadField,
    ::testing::Values(
        Bad{"endpoint", "\" \"", "endpoint is not set"}, Bad{"region", "null", "region is not set"},
        Bad{"bucket", "\"\"", "bucket is not set"}, Bad{"accessKey", "null", "accessKey is not set"},
        Bad{"queues", "null", "queues is not set"}, Bad{"queues", "\",,\"", "queues=,, names no queue"},
        Bad{"queues", "[]", "queues names no queue"},
        Bad{"queues", R"(["a","*"])", "must stand alone as a string"},
        Bad{"queues", R"(["*"])", "must stand alone as a string"},
        Bad{"queues", R"(["a",1])", "1, which is not a queue name"},
        Bad{"queues", "7", "queues=7 is not a list of queues"}, Bad{"queues", "\"a,*\"", "must stand alone"},
        Bad{"endpoint", "\"minio\"", "endpoint=minio has no scheme"},
        Bad{"endpoint", "\"http://h/p\"", "carries a path: the place inside the bucket is prefix"},
        Bad{"endpoint", "7", "endpoint=7 is not a string"}, Bad{"bucket", "\"a/b\"", "is not a bucket name"},
        Bad{"prefix", "\"a/../b\"", "segment \"..\""}, Bad{"sink", "\"a:b\"", "different prefix values"},
        Bad{"pathStyle", "7", "pathStyle=7 is not a boolean"},
        Bad{"pathStyle", "\"maybe\"", "pathStyle=maybe is not a boolean"},
        Bad{"targetMb", "1.5", "targetMb=1.5 is not a whole number"},
        Bad{"targetMb", "true", "targetMb=true is not a whole number"},
        Bad{"targetMb", "\"x\"", "targetMb=x is not a whole number"},
        Bad{"targetMb", "0", "targetMb=0 is outside 1..=5120"},
        Bad{"maxWindowMs", "50", "maxWindowMs=50 is outside 100..=86400000"},
        Bad{"format", "\"csv\"", "is not a format"}, Bad{"format", "[]", "format=[] is not a string"},
        Bad{"compression", "\"snappy\"", "the codec of Parquet is parquetCodec"},
        Bad{"parquetCodec", "\"gzip\"", "is not a codec"}, Bad{"layout", "\"wide\"", "is not a layout"},
        Bad{"align", "\"week\"", "is not an alignment"}, Bad{"start", "\"middle\"", "is not a start"},
        Bad{"sse", "\"yes\"", "the key of aws:kms is sseKmsKeyId"},
        Bad{"sseKmsKeyId", "\"k\"", "sseKmsKeyId is set but sse=off"},
        Bad{"accessKey", "[\"AKIDEXAMPLE\"]", "accessKey is a list, which is not a string"},
        Bad{"partitions", "\"p0\"",
            "is not a field of a tenant's sink: use queues, endpoint, region, bucket, "},
        Bad{"Bucket", "\"b\"", "is not a field of a tenant's sink"},
        Bad{"secretKey", "\"hush-hush\"", "secretKey is not a field of the document"},
        Bad{"secret_key", "\"hush-hush\"", "is named like a secret"},
        Bad{"AccessToken", "\"hush-hush\"", "is named like a secret"},
        Bad{"dbPassword", "\"hush-hush\"", "is named like a secret"},
        Bad{"credentials", "\"hush-hush\"", "is named like a secret"},
        Bad{"memoryMb", "1", "is node-wide: QUEEN_S3_MEMORY_MB"},
        Bad{"fetchConcurrency", "1", "is node-wide: QUEEN_S3_FETCH_CONCURRENCY"},
        Bad{"discoveryIntervalMs", "1", "is node-wide: QUEEN_S3_DISCOVERY_INTERVAL_MS"},
        Bad{"safeGuardMs", "1", "is node-wide: QUEEN_S3_SAFE_GUARD_MS"},
        Bad{"leaseTtlMs", "1", "is node-wide: QUEEN_S3_LEASE_TTL_MS"},
        Bad{"multipartThresholdMb", "1", "is node-wide: QUEEN_S3_MULTIPART_THRESHOLD_MB"},
        Bad{"checkpointEvery", "1", "is node-wide: QUEEN_S3_CHECKPOINT_EVERY"},
        Bad{"instance", "\"i\"", "is node-wide: QUEEN_S3_INSTANCE"},
        Bad{"crashAt", "\"never\"", "is node-wide: QUEEN_S3_CRASH_AT"}));

TEST(TenantDocument, NamesTheFieldsThatThereAreInTheirOrder) {
  EXPECT_THAT(
      refusal(R"({"x":1})"),
      HasSubstr(
          "use queues, endpoint, region, bucket, accessKey, prefix, pathStyle, sse, sseKmsKeyId, format, "
          "compression, parquetCodec, layout, align, start, targetMb, maxWindowMs, sink"));
}

TEST(TenantDocument, SaysWhatItIsInsteadOfAnObject) {
  for (const auto& [json, kind] : {std::pair{"null", "null"},
                                   {"true", "a boolean"},
                                   {"7", "a number"},
                                   {"\"x\"", "a string"},
                                   {"[]", "a list"}})
    EXPECT_EQ(refusal(json), fmt::format("the document is {}, not an object", kind));
  EXPECT_THAT(refusal("{"), HasSubstr("the document is not JSON"));
}

TEST(TenantDocument, NeedsATenantAndASecret) {
  const std::string config = text_of(minimal());
  EXPECT_EQ(read_tenant_document({.tenant = " ", .config = config, .secret_key = "s"}).error().what,
            "the tenant is empty");
  EXPECT_THAT(read(config, "  ").error().what, HasSubstr("the secret key is not set"));
}

TEST(TenantDocument, TheCheckOfTheControlPlaneIsTheReadingWordForWord) {
  EXPECT_TRUE(check_tenant_document("t-1", text_of(minimal())));
  for (const auto& [name, json] :
       Fields{{"queues", "7"}, {"endpoint", "\"x\""}, {"memoryMb", "1"}, {"a", "1"}}) {
    const std::string config = text_of(with(name, json));
    EXPECT_EQ(check_tenant_document("t-1", config).error().what, refusal(config));
  }
  EXPECT_EQ(check_tenant_document("", "{}").error().what, "the tenant is empty");
}

}  // namespace
}  // namespace queen::sink
