// The text format, and the process summary.
#include "ops/prometheus.h"

#include <gtest/gtest.h>

#include "ops/ops.h"

namespace queen::ops {
namespace {

using Type = PrometheusText::Type;

TEST(PrometheusText, TellsHelpAndTypeOnceBeforeTheFirstSample) {
  PrometheusText out;
  out.family("a_total", Type::counter, "As.");
  out.sample({}, std::uint64_t{1});
  out.family("b", Type::gauge, "Bs.");
  out.sample({{"kind", "x"}}, std::uint64_t{2});
  out.sample({{"kind", "y"}, {"of", "z"}}, 0.5);
  EXPECT_EQ(out.take(),
            "# HELP a_total As.\n# TYPE a_total counter\na_total 1\n"
            "# HELP b Bs.\n# TYPE b gauge\nb{kind=\"x\"} 2\nb{kind=\"y\",of=\"z\"} 0.5\n");
}

TEST(PrometheusText, ShowsNoFamilyWithoutSamples) {
  PrometheusText out;
  out.family("never", Type::gauge, "Nothing.");
  out.family("b", Type::gauge, "Bs.");
  out.sample({}, std::uint64_t{2});
  EXPECT_EQ(out.take(), "# HELP b Bs.\n# TYPE b gauge\nb 2\n");
}

TEST(PrometheusText, EscapesLabels) {
  PrometheusText out;
  out.family("b", Type::gauge, "Bs.");
  out.sample({{"queue", "a\"b\\c\nd"}}, std::uint64_t{2});
  EXPECT_TRUE(out.take().ends_with("b{queue=\"a\\\"b\\\\c\\nd\"} 2\n"));
}

class FixedMeter final : public broker::Meter {
 public:
  broker::OpCounts totals() const override {
    broker::OpCounts out;
    for (std::size_t i = 0; i < broker::kOps; ++i) out.counts[i] = i + 1;
    return out;
  }
  std::int64_t uptime_us() const override { return 61'900'000; }
  broker::LagSum loop_lag() const override { return {}; }
  broker::NodeGauges gauges() const override { return {}; }
  broker::ProcessUse process() const override { return {0, 0, 4096, 8192}; }
  std::vector<broker::ParkedPops> parked() const override { return {}; }
  std::vector<broker::QueueOpsRow> last_rows() const override { return {}; }
  std::optional<std::int64_t> written_until_us() const override { return std::nullopt; }
  std::vector<broker::NodeRow> node_rows(std::int64_t, std::int64_t) const override { return {}; }
  std::vector<broker::QueueOpsRow> queue_rows(const std::string&, std::int64_t, std::int64_t) const override {
    return {};
  }
  std::vector<broker::DeadLetterDepth> dead_letters() const override { return {}; }
};

// push, pop and ack requests are counters 1, 3 and 6; their messages 2, 4 and 7 + 8.
TEST(MetricsAnswer, SumsUpTheProcess) {
  broker::Health health;
  health.ready = true;
  health.term = 7;
  health.applied = 5;
  health.commit = 6;
  EXPECT_EQ(
      metrics_response(FixedMeter(), health).body,
      R"({"uptime":61,"requests":{"total":10,"rate":0},"messages":{"total":21,"rate":0},"memory":{"rss":4096,"heapTotal":0,"heapUsed":0,"external":0,"arrayBuffers":0},"cpu":{"user":0,"system":0},"engine":"raft","raft":{"role":"leader","leader":true,"term":7,"applied":5,"commit":6,"lag":0,"storageReady":true}})");
  health.stopped_cause = "fsync failed";
  EXPECT_NE(metrics_response(FixedMeter(), health).body.find(R"("role":"stopped","leader":false)"),
            std::string::npos);
}

}  // namespace
}  // namespace queen::ops
