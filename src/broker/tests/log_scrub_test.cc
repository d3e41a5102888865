// CR-6: the pace of the log scrub, and what a damaged file does to the health of a single node.
#include "broker/log_scrub.h"

#include <gtest/gtest.h>

#include "disk/ram_disk.h"

namespace queen::broker {
namespace {

class NoLog final : public LogSink {
 public:
  bool enabled(LogLevel, std::string_view) const override { return false; }
  void write(LogLevel, std::string_view, std::string_view, std::span<const LogField>) override {}
};

// One log of some sealed files of about 10 KB each.
struct Logs {
  disk::RamDisk disk;
  qlog::InlineRunner runner;
  ManualClock clock;
  ManualExecutor executor{clock};
  NoLog sink;
  std::unique_ptr<qlog::QueueLogs> logs;
  std::uint64_t sealed_bytes = 0;

  explicit Logs(std::uint64_t files) {
    EXPECT_TRUE(disk.make_dirs("/data"));
    qlog::Options options;
    options.directory = "/data/qlog";
    options.segment_bytes = 33;
    options.prealloc_bytes = 0;
    auto opened = qlog::QueueLogs::open(
        disk, runner, options, {},
        [](BytesView) -> Result<std::vector<qlog::AppendKey>> { return std::vector<qlog::AppendKey>{}; },
        Logger(sink, "test"));
    EXPECT_TRUE(opened);
    logs = std::move(*opened);
    const Bytes entry(10'000, 'e');
    for (std::uint64_t i = 1; i <= files + 1; ++i) {
      if (i == files + 1) sealed_bytes = logs->bytes_on_disk();
      const std::vector<qlog::EntryToWrite> group{
          {.index = {i}, .term = 0, .now_us = 1, .entry = entry, .messages = {}, .touched = {LogId{7}}}};
      const auto written = logs->write_group(group);
      EXPECT_TRUE(written);
      EXPECT_TRUE(logs->sync(*written));
    }
  }
  std::uint64_t scrubbed() const { return logs->stats().scrubbed_bytes; }
};

TEST(LogScrubPace, ReadsAsManyBytesASecondAsAskedFor) {
  Logs logs(40);
  LogScrub scrub(*logs.logs, logs.executor, 100'000, Logger(logs.sink, "test"));
  scrub.start();
  for (std::int64_t second = 1; second <= 3; ++second) {
    logs.executor.run_for(1'000'000);
    EXPECT_GE(logs.scrubbed(), static_cast<std::uint64_t>(second) * 100'000 - 20'100);
    EXPECT_LE(logs.scrubbed(), static_cast<std::uint64_t>(second) * 100'000 + 10'100);
  }
}

TEST(LogScrubPace, RestsTenMinutesAfterARound) {
  Logs logs(3);
  LogScrub scrub(*logs.logs, logs.executor, 1 << 20, Logger(logs.sink, "test"));
  scrub.start();
  logs.executor.run_for(60'000'000);
  EXPECT_EQ(logs.logs->stats().scrub_rounds, 1u);
  logs.executor.run_for(600'000'000);
  EXPECT_EQ(logs.logs->stats().scrub_rounds, 2u);
}

TEST(LogScrubPace, IsOffAtZeroAndEndsWhenStopped) {
  Logs logs(40);
  LogScrub off(*logs.logs, logs.executor, 0, Logger(logs.sink, "test"));
  off.start();
  logs.executor.run_for(10'000'000);
  EXPECT_EQ(logs.scrubbed(), 0u);
  LogScrub scrub(*logs.logs, logs.executor, 100'000, Logger(logs.sink, "test"));
  scrub.start();
  logs.executor.run_for(1'000'000);
  scrub.stop();
  const auto before = logs.scrubbed();
  EXPECT_GT(before, 0u);
  logs.executor.run_for(10'000'000);
  EXPECT_EQ(logs.scrubbed(), before);
}

}  // namespace
}  // namespace queen::broker
