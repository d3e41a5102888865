// The families of the sink on GET /metrics/prometheus (s3-sink.md 23).
#include "sink/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.h"

namespace queen::sink {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kDefault(kDefaultTenant);

QueueRow owned_row() {
  QueueRow row;
  row.owned_here = true;
  row.lag_us = 5'200'000;
  row.safe_time = 90'000'000;
  row.swept_partitions = 12;
  row.checkpoint_age_windows = 3;
  return row;
}

TEST(SinkMetrics, DeclaresEachFamilyOnceAlsoWithoutASample) {
  const std::string text = metrics_text({}, {}, 7, 0);
  const std::pair<const char*, const char*> families[] = {
      {"queen_s3_lag_seconds", "gauge"},
      {"queen_s3_safe_lag_seconds", "gauge"},
      {"queen_s3_windows_committed_total", "counter"},
      {"queen_s3_records_written_total", "counter"},
      {"queen_s3_bytes_written_total", "counter"},
      {"queen_s3_records_lost_total", "counter"},
      {"queen_s3_window_records", "histogram"},
      {"queen_s3_window_bytes", "histogram"},
      {"queen_s3_buffer_bytes", "gauge"},
      {"queen_s3_fetch_calls_total", "counter"},
      {"queen_s3_discovery_partitions", "gauge"},
      {"queen_s3_s3_requests_total", "counter"},
      {"queen_s3_commit_precondition_lost_total", "counter"},
      {"queen_s3_checkpoint_age_windows", "gauge"},
      {"queen_s3_queues_given_back_total", "counter"}};
  for (const auto& [name, type] : families) {
    const std::string declared = std::string("# TYPE ") + name + " " + type + "\n";
    const auto at = text.find(declared);
    EXPECT_NE(at, std::string::npos) << name;
    EXPECT_EQ(text.find(declared, at + 1), std::string::npos) << name;
    EXPECT_THAT(text, HasSubstr(std::string("# HELP ") + name + " "));
  }
  EXPECT_THAT(text, HasSubstr("\nqueen_s3_buffer_bytes 7\n"));
  EXPECT_THAT(text, Not(HasSubstr("\nqueen_s3_safe_lag_seconds ")));
}

TEST(SinkMetrics, GaugesAreOfTheQueuesThatThisNodeRuns) {
  QueueRow held;
  held.lag_us = 1;
  const std::string text =
      metrics_text({}, {{kDefault, {{"a\"b", owned_row()}, {"held", held}}}, {"t-1", {{"q", owned_row()}}}},
                   0, 100'000'000);
  EXPECT_THAT(text, HasSubstr("queen_s3_lag_seconds{queue=\"a\\\"b\"} 5.2\n"
                              "queen_s3_lag_seconds{tenant=\"t-1\",queue=\"q\"} 5.2\n"));
  EXPECT_THAT(text, HasSubstr("\nqueen_s3_safe_lag_seconds 10\n"));
  EXPECT_THAT(text, HasSubstr("queen_s3_discovery_partitions{tenant=\"t-1\",queue=\"q\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("queen_s3_checkpoint_age_windows{queue=\"a\\\"b\"} 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("held")));
}

TEST(SinkMetrics, CountersBeginAtZeroAndKeepTheirLabelsInOrder) {
  MetricRegistry registry;
  registry.begin_tenant("t-1");
  registry.begin_queue("t-1", "q", lake::Format::parquet);
  registry.count_fetch("t-1", "q", false);
  registry.count_request("t-1", "put", 503);
  registry.count_request("t-1", "put", 0);
  registry.count_precondition_lost("t-1");
  registry.count_given_back("t-1");
  const std::string text = metrics_text(registry.snapshot(), {}, 0, 0);
  for (const char* sample :
       {"queen_s3_windows_committed_total{tenant=\"t-1\",queue=\"q\"} 0\n",
        "queen_s3_bytes_written_total{tenant=\"t-1\",queue=\"q\",format=\"parquet\"} 0\n",
        "queen_s3_fetch_calls_total{tenant=\"t-1\",queue=\"q\",result=\"error\"} 1\n"
        "queen_s3_fetch_calls_total{tenant=\"t-1\",queue=\"q\",result=\"ok\"} 0\n",
        "queen_s3_s3_requests_total{tenant=\"t-1\",op=\"put\",code=\"0\"} 1\n"
        "queen_s3_s3_requests_total{tenant=\"t-1\",op=\"put\",code=\"503\"} 1\n",
        "queen_s3_commit_precondition_lost_total{tenant=\"t-1\"} 1\n",
        "queen_s3_queues_given_back_total{tenant=\"t-1\"} 1\n"})
    EXPECT_THAT(text, HasSubstr(sample));
  registry.forget("t-1");
  EXPECT_THAT(metrics_text(registry.snapshot(), {}, 0, 0), Not(HasSubstr("t-1")));
}

TEST(SinkMetrics, HistogramsAreCumulative) {
  MetricRegistry registry;
  for (const std::uint64_t records : {1U, 10U, 11U})
    registry.count_window(kDefault, "q", lake::Format::jsonl,
                          {.records = records, .bytes = 2ULL << 20, .lost = 1});
  const std::string text = metrics_text(registry.snapshot(), {}, 0, 0);
  EXPECT_THAT(text, HasSubstr("queen_s3_window_records_bucket{le=\"1\"} 1\n"
                              "queen_s3_window_records_bucket{le=\"10\"} 2\n"
                              "queen_s3_window_records_bucket{le=\"100\"} 3\n"));
  EXPECT_THAT(text,
              HasSubstr("queen_s3_window_records_bucket{le=\"+Inf\"} 3\nqueen_s3_window_records_sum 22\n"
                        "queen_s3_window_records_count 3\n"));
  EXPECT_THAT(text, HasSubstr("queen_s3_window_bytes_bucket{le=\"1048576\"} 0\n"
                              "queen_s3_window_bytes_bucket{le=\"4194304\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("queen_s3_records_lost_total{queue=\"q\"} 3\n"));
}

}  // namespace
}  // namespace queen::sink
