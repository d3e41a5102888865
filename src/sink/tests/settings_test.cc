// How the sink's variables are read and refused (s3-sink.md 4; acceptance list A).
#include "sink/settings.h"

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
using ::testing::StartsWith;
using Env = std::map<std::string, std::string, std::less<>>;

Env minimal() {
  return {{"QUEEN_S3_QUEUES", "orders"},         {"QUEEN_S3_ENDPOINT", "http://minio:9000"},
          {"QUEEN_S3_REGION", "us-east-1"},      {"QUEEN_S3_BUCKET", "lake"},
          {"QUEEN_S3_ACCESS_KEY", "access-key"}, {"QUEEN_S3_SECRET_KEY", "hush-hush"}};
}

SettingsContext context() {
  return {.node_id = 2, .cores = 4, .os_host_name = "box", .random_bits = 0xabcULL};
}

Result<SinkSettings> read(const Env& env, const SettingsContext& with = context()) {
  const Lookup lookup = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = env.find(name);
    if (found == env.end()) return std::nullopt;
    return found->second;
  };
  return read_settings(lookup, with);
}

Env with(std::string name, std::string value) {
  Env env = minimal();
  env[std::move(name)] = std::move(value);
  return env;
}

std::string refusal(const Env& env) {
  auto got = read(env);
  return got ? "no refusal" : got.error().what;
}

TEST(SinkSettings, DefaultsAreThoseOfTheTable) {
  const auto got = read(minimal());
  ASSERT_TRUE(got) << got.error().what;
  const UnitSettings& unit = *got->environment;
  EXPECT_EQ(unit.queues, std::vector<std::string>{"orders"});
  EXPECT_EQ(unit.prefix, "queen");
  EXPECT_FALSE(unit.path_style);
  EXPECT_EQ(unit.sse, s3::Sse::off);
  EXPECT_EQ(unit.kind.codec, lake::Codec::zstd);
  EXPECT_EQ(unit.kind.format, lake::Format::jsonl);
  EXPECT_EQ(unit.layout, Layout::merged);
  EXPECT_EQ(unit.align, Align::hour);
  EXPECT_EQ(unit.start, StartFrom::latest);
  EXPECT_EQ(unit.target_bytes, 128ULL << 20);
  EXPECT_EQ(unit.max_window_us, 300'000'000);
  EXPECT_EQ(unit.sink, "default");
  const NodeSettings& node = got->node;
  EXPECT_EQ(node.threads, 1);
  EXPECT_EQ(node.shutdown_grace_us, 30'000'000);
  EXPECT_EQ(node.memory_bytes, 512ULL << 20);
  EXPECT_EQ(node.fetch_concurrency, 4);
  EXPECT_EQ(node.discovery_interval_us, 2'000'000);
  EXPECT_EQ(node.safe_guard_us, 5'000'000);
  EXPECT_EQ(node.lease_ttl_us, 30'000'000);
  EXPECT_EQ(node.multipart_threshold_bytes, 64ULL << 20);
  EXPECT_EQ(node.checkpoint_every, 20U);
  EXPECT_EQ(node.instance, "node-2@box");
  EXPECT_EQ(node.crash_at, CrashPoint::never);
}

TEST(SinkSettings, RangesOfTheTableAreSpeltAsTheyAreChecked) {
  for (const SettingRow& row : kSettingRows) {
    if (std::string_view(row.type) == "int") {
      EXPECT_EQ(row.range, fmt::format("{}..={}", row.min, row.max)) << row.name;
    }
    EXPECT_THAT(row.help, Not(HasSubstr("\n")));
    EXPECT_EQ(std::string_view(row.help).back(), '.') << row.name;
  }
}

TEST(SinkSettings, EveryNumberIsHeldToItsRange) {
  for (const SettingRow& row : kSettingRows) {
    if (std::string_view(row.type) != "int") continue;
    EXPECT_TRUE(read(with(row.name, std::to_string(row.min)))) << row.name;
    EXPECT_TRUE(read(with(row.name, std::to_string(row.max)))) << row.name;
    for (const std::string& bad :
         {std::to_string(row.min - 1), std::to_string(row.max + 1), std::string("x1")})
      EXPECT_THAT(refusal(with(row.name, bad)),
                  AllOf(StartsWith("QUEEN_S3_EMBEDDED=true: "),
                        HasSubstr(fmt::format("{}={} is ", row.name, bad)), HasSubstr(row.range)));
  }
}

TEST(SinkSettings, OutOfRangeHasTheExactForm) {
  EXPECT_EQ(refusal(with("QUEEN_S3_MAX_WINDOW_MS", "50")),
            "QUEEN_S3_EMBEDDED=true: QUEEN_S3_MAX_WINDOW_MS=50 is outside 100..=86400000. The longest that a "
            "window "
            "stays open, in milliseconds on the broker's clock.");
  EXPECT_EQ(refusal(with("QUEEN_S3_THREADS", "1.5")),
            "QUEEN_S3_EMBEDDED=true: QUEEN_S3_THREADS=1.5 is not an integer in 1..=64");
}

TEST(SinkSettings, BlankIsUnsetAndEnumsIgnoreCase) {
  Env env = minimal();
  env["QUEEN_S3_TARGET_MB"] = "  ";
  env["QUEEN_S3_THREADS"] = "";
  env["QUEEN_S3_COMPRESSION"] = " GZ ";
  env["QUEEN_S3_ALIGN"] = "Daily";
  env["QUEEN_S3_START"] = "BEGINNING";
  env["QUEEN_S3_SSE"] = "KMS";
  env["QUEEN_S3_FORMAT"] = "NdJson";
  env["QUEEN_S3_PATH_STYLE"] = "ON";
  const auto got = read(env);
  ASSERT_TRUE(got) << got.error().what;
  EXPECT_EQ(got->environment->target_bytes, 128ULL << 20);
  EXPECT_EQ(got->node.threads, 1);
  EXPECT_EQ(got->environment->kind.codec, lake::Codec::gzip);
  EXPECT_EQ(got->environment->align, Align::day);
  EXPECT_EQ(got->environment->start, StartFrom::earliest);
  EXPECT_EQ(got->environment->sse, s3::Sse::aws_kms);
  EXPECT_TRUE(got->environment->path_style);
}

TEST(SinkSettings, EachRequiredVariableIsNamedWhenMissing) {
  for (const char* name : {"QUEEN_S3_ENDPOINT", "QUEEN_S3_REGION", "QUEEN_S3_BUCKET", "QUEEN_S3_ACCESS_KEY",
                           "QUEEN_S3_SECRET_KEY"}) {
    EXPECT_THAT(refusal(with(name, " ")), HasSubstr(std::string(name) + " is not set"));
  }
}

struct Alias {
  const char* name;
  const char* value;
  const char* shown;  // in the start line
};
class AliasOf : public ::testing::TestWithParam<Alias> {};
TEST_P(AliasOf, IsReadAsWhatItStandsFor) {
  const auto got = read(with(GetParam().name, GetParam().value));
  ASSERT_TRUE(got) << got.error().what;
  EXPECT_THAT(start_line(*got->environment, got->node, "t", "0.1.0"), HasSubstr(GetParam().shown));
}
INSTANTIATE_TEST_SUITE_P(All, AliasOf,
                         ::testing::Values(Alias{"QUEEN_S3_FORMAT", "JSON", "format=jsonl "},
                                           Alias{"QUEEN_S3_FORMAT", "ndjson", "format=jsonl "},
                                           Alias{"QUEEN_S3_FORMAT", "Parquet",
                                                 "format=parquet compression=zstd "},
                                           Alias{"QUEEN_S3_COMPRESSION", "zst", "compression=zstd "},
                                           Alias{"QUEEN_S3_COMPRESSION", "gz", "compression=gzip "},
                                           Alias{"QUEEN_S3_COMPRESSION", "OFF", "compression=none "},
                                           Alias{"QUEEN_S3_LAYOUT", "per_partition", "layout=per-partition "},
                                           Alias{"QUEEN_S3_LAYOUT", "PerPartition", "layout=per-partition "},
                                           Alias{"QUEEN_S3_LAYOUT", "per-partition", "layout=per-partition "},
                                           Alias{"QUEEN_S3_ALIGN", "hourly", "align=hour "},
                                           Alias{"QUEEN_S3_ALIGN", "day", "align=day "},
                                           Alias{"QUEEN_S3_ALIGN", "off", "align=none "},
                                           Alias{"QUEEN_S3_START", "now", "start=latest "},
                                           Alias{"QUEEN_S3_START", "end", "start=latest "},
                                           Alias{"QUEEN_S3_START", "earliest", "start=earliest "},
                                           Alias{"QUEEN_S3_SSE", "aes256", "sse=AES256 "},
                                           Alias{"QUEEN_S3_SSE", "kms", "sse=aws:kms "},
                                           Alias{"QUEEN_S3_PATH_STYLE", "Yes", "addressing=path-style "},
                                           Alias{"QUEEN_S3_PATH_STYLE", "0", "addressing=virtual-host "}));

TEST(SinkSettings, TheCodecIsTheOneOfTheFormat) {
  Env env = with("QUEEN_S3_COMPRESSION", "gzip");
  env["QUEEN_S3_PARQUET_CODEC"] = "SNAP";
  EXPECT_EQ(read(env)->environment->kind.codec, lake::Codec::gzip);
  env["QUEEN_S3_FORMAT"] = "parquet";
  EXPECT_EQ(read(env)->environment->kind.codec, lake::Codec::snappy);
}

struct Bad {
  const char* name;
  const char* value;
  const char* says;
};
class BadValue : public ::testing::TestWithParam<Bad> {};
TEST_P(BadValue, IsRefusedByNameAndReason) {
  const Bad& bad = GetParam();
  EXPECT_THAT(refusal(with(bad.name, bad.value)),
              AllOf(StartsWith("QUEEN_S3_EMBEDDED=true: "), HasSubstr(bad.name), HasSubstr(bad.says),
                    Not(HasSubstr("hush-hush"))));
}
INSTANTIATE_TEST_SUITE_P(
    All, BadValue,
    ::testing::Values(
        Bad{"QUEEN_S3_ENDPOINT", "minio:9000", "has no scheme"},
        Bad{"QUEEN_S3_ENDPOINT", "http://", "has no host"},
        Bad{"QUEEN_S3_ENDPOINT", "http://h/p", "QUEEN_S3_PREFIX"},
        Bad{"QUEEN_S3_ENDPOINT", "http://h:0", "is not one"},
        Bad{"QUEEN_S3_ENDPOINT", "http://h:1x", "is not one"},
        Bad{"QUEEN_S3_ENDPOINT", "https://h//", "carries a path"},
        Bad{"QUEEN_S3_BUCKET", "a/b", "is not a bucket name"},
        Bad{"QUEEN_S3_BUCKET", "a b", "QUEEN_S3_PREFIX"}, Bad{"QUEEN_S3_PREFIX", "//", "is empty"},
        Bad{"QUEEN_S3_PREFIX", "a//b", "segment \"\""}, Bad{"QUEEN_S3_PREFIX", "a/../b", "segment \"..\""},
        Bad{"QUEEN_S3_PREFIX", "./a", "segment \".\""}, Bad{"QUEEN_S3_SINK", "a:b", "is not a sink name"},
        Bad{"QUEEN_S3_SINK", "a/b", "1..=64"}, Bad{"QUEEN_S3_PATH_STYLE", "maybe", "is not a boolean"},
        Bad{"QUEEN_S3_FORMAT", "csv", "is not a format: use one of jsonl, json, ndjson, parquet"},
        Bad{"QUEEN_S3_COMPRESSION", "snappy", "is not a codec: use one of zstd, zst, gzip, gz, none, off"},
        Bad{"QUEEN_S3_COMPRESSION", "snappy", "QUEEN_S3_PARQUET_CODEC"},
        Bad{"QUEEN_S3_PARQUET_CODEC", "gzip", "is not a codec: use one of zstd, zst, snappy, snap"},
        Bad{"QUEEN_S3_LAYOUT", "wide", "is not a layout: use one of merged, per-partition"},
        Bad{"QUEEN_S3_ALIGN", "week", "is not an alignment: use one of hour"},
        Bad{"QUEEN_S3_START", "middle", "is not a start: use one of latest"},
        Bad{"QUEEN_S3_SSE", "yes", "QUEEN_S3_SSE_KMS_KEY_ID"},
        Bad{"QUEEN_S3_SSE_KMS_KEY_ID", "k", "is set but QUEEN_S3_SSE=off"},
        Bad{"QUEEN_S3_QUEUES", ",,", "names no queue"}, Bad{"QUEEN_S3_QUEUES", "a,*", "stand alone"},
        Bad{"QUEEN_S3_CRASH_AT", "soon", "is not a fault point"},
        Bad{"QUEEN_S3_PARTITIONS", "p0,p1", "/api/v1/partitions/changed"},
        Bad{"QUEEN_S3_PARTITIONS", "{", "/api/v1/partitions/changed"}));

TEST(SinkSettings, QueuesAreTrimmedAndListedOnce) {
  const auto list = read(with("QUEEN_S3_QUEUES", " a , b,,a "));
  ASSERT_TRUE(list);
  EXPECT_EQ(list->environment->queues, (std::vector<std::string>{"a", "b"}));
  const auto all = read(with("QUEEN_S3_QUEUES", " * "));
  ASSERT_TRUE(all);
  EXPECT_TRUE(all->environment->all_queues);
  EXPECT_TRUE(all->environment->queues.empty());
}

TEST(SinkSettings, PrefixAndEndpointLoseTheirOuterSlashes) {
  Env env = with("QUEEN_S3_PREFIX", "/a/b/");
  env["QUEEN_S3_ENDPOINT"] = "https://[::1]:9000/";
  const auto got = read(env);
  ASSERT_TRUE(got) << got.error().what;
  EXPECT_EQ(got->environment->prefix, "a/b");
  EXPECT_EQ(got->environment->endpoint, "https://[::1]:9000");
}

TEST(SinkSettings, NodeVariablesAloneTurnNoSinkOn) {
  const auto got = read({{"QUEEN_S3_MEMORY_MB", "64"}});
  ASSERT_TRUE(got);
  EXPECT_FALSE(got->environment);
}

TEST(SinkSettings, AnyQueueVariableWithoutQueuesIsRefused) {
  for (const SettingRow& row : kSettingRows) {
    if (row.scope != SettingScope::queues || std::string_view(row.name) == "QUEEN_S3_QUEUES") continue;
    EXPECT_THAT(
        refusal({{row.name, "x"}}),
        AllOf(HasSubstr(fmt::format("{} is set but QUEEN_S3_QUEUES is not", row.name)), HasSubstr("on")));
  }
}

TEST(SinkSettings, InstanceCarriesTheNodeOnce) {
  EXPECT_EQ(read(with("QUEEN_S3_INSTANCE", "blue"))->node.instance, "blue/node-2");
  EXPECT_EQ(read(with("QUEEN_S3_INSTANCE", "blue/node-2"))->node.instance, "blue/node-2");
  EXPECT_EQ(read(with("HOSTNAME", "broker-1"))->node.instance, "node-2@broker-1");
  SettingsContext nowhere = context();
  nowhere.os_host_name = " ";
  EXPECT_EQ(read(minimal(), nowhere)->node.instance, "node-2@localhost");
  nowhere.node_id = 0;
  const auto made_up = read(minimal(), nowhere);
  EXPECT_EQ(made_up->node.instance, "s3-0000000000000abc");
  EXPECT_TRUE(made_up->node.instance_generated);
}

TEST(SinkSettings, ThreadsDefaultToAQuarterOfTheCoresWithinOneAndTwo) {
  for (const auto& [cores, threads] : {std::pair{1U, 1}, {4U, 1}, {8U, 2}, {64U, 2}}) {
    SettingsContext machine = context();
    machine.cores = cores;
    EXPECT_EQ(read(minimal(), machine)->node.threads, threads) << cores;
  }
}

TEST(SinkSettings, LeftoversOfAStandaloneEditionAreOnlyNamed) {
  Env env = with("QUEEN_S3_LISTEN", "0.0.0.0:1");
  env["QUEEN_S3_LOG_FORMAT"] = "json";
  EXPECT_EQ(read(env)->ignored, (std::vector<std::string>{"QUEEN_S3_LISTEN", "QUEEN_S3_LOG_FORMAT"}));
}

TEST(SinkSettings, EveryCrashPointIsKnown) {
  for (const char* name : {"after_intent", "mid_upload", "after_upload", "before_commit", "after_commit"})
    EXPECT_EQ(name_of(read(with("QUEEN_S3_CRASH_AT", name))->node.crash_at), name);
  for (const char* name : {"never", "OFF", "none"})
    EXPECT_EQ(read(with("QUEEN_S3_CRASH_AT", name))->node.crash_at, CrashPoint::never);
}

TEST(SinkSettings, StartLineHoldsEverySettingAndNoSecret) {
  Env env = with("QUEEN_S3_SSE", "aws:kms");
  env["QUEEN_S3_SSE_KMS_KEY_ID"] = "arn:key/0123456789";
  const auto got = read(env);
  ASSERT_TRUE(got);
  EXPECT_EQ(start_line(*got->environment, got->node, "t-1", "0.1.0"),
            "queen-s3 0.1.0 tenant=t-1 sink=default instance=node-2@box queues=orders partitions=discovery "
            "s3=http://minio:9000 bucket=lake prefix=queen region=us-east-1 addressing=virtual-host "
            "sse=aws:kms(…6789) format=jsonl compression=zstd layout=merged align=hour target_mb=128 "
            "max_window_ms=300000 start=latest checkpoint_every=20 memory_mb=512 fetch_concurrency=4 "
            "discovery_interval_ms=2000 safe_guard_ms=5000 lease_ttl_ms=30000 multipart_threshold_mb=64 "
            "crash_at=never");
}

TEST(SinkSettings, StartLineOfAParquetSinkShowsItsCodec) {
  Env env = with("QUEEN_S3_FORMAT", "parquet");
  env["QUEEN_S3_PARQUET_CODEC"] = "snappy";
  env["QUEEN_S3_LAYOUT"] = "per-partition";
  const auto got = read(env);
  ASSERT_TRUE(got);
  EXPECT_THAT(start_line(*got->environment, got->node, "t-1", "0.1.0"),
              AllOf(HasSubstr("format=parquet compression=snappy layout=per-partition "),
                    Not(HasSubstr("hush-hush"))));
}

TEST(SinkSettings, BlankPartitionsAreUnset) {
  EXPECT_TRUE(read(with("QUEEN_S3_PARTITIONS", " ")));
}

}  // namespace
}  // namespace queen::sink
