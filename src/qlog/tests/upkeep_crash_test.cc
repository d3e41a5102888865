// The power goes off at every change of the disk while files are sealed, freed, rewritten and logs removed.
// What the checkpoint on disk calls live and what was acknowledged is there afterwards, and upkeep goes on to
// the end.
#include "upkeep_support.h"

namespace queen::qlog {
namespace {

enum class Loss : bool { all_unsynced, by_sector };

constexpr std::int64_t kLong = 10'000'000'000'000;

struct Script {
  UpkeepNode node;
  std::map<std::uint64_t, std::uint64_t> next_offset;  // acknowledged, by pid

  Script() {
    node.options.segment_bytes = 500;
    node.options.prealloc_min_syncs = 2;
    node.options.prealloc_bytes = 200;
  }

  // Log of a partition: two share one, and the system log has entry parts only.
  static std::uint64_t log_of(std::uint64_t pid) { return pid < 3 ? 5 : 9; }
  static std::string text(std::uint64_t pid, std::uint64_t offset) {
    return "p" + std::to_string(pid) + " o" + std::to_string(offset) + std::string(offset % 60, '.');
  }

  bool push_some(std::uint64_t pid) {
    for (int i = 0; i < 3; ++i) {
      std::uint64_t& next = next_offset[pid];
      if (!node.append(log_of(pid), pid, next, {text(pid, next), text(pid, next + 1)})) return false;
      next += 2;
      if (!node.touch(0)) return false;
    }
    return true;
  }
  // False once the power is off. The passes themselves never fail for it: they try again later.
  bool upkeep(bool seal) {
    const auto idle = node.upkeep->idle_pass(seal ? kLong : 0);
    if (!idle) return false;
    node.pass();
    return node.disk.exists("/data").has_value();
  }
  bool settle(int rounds, bool seal) {
    for (int i = 0; i < rounds; ++i) {
      if (!upkeep(seal) || !node.touch(0)) return false;
      node.checkpoint();
    }
    return true;
  }
  bool retain(std::uint64_t pid, std::uint64_t below) {
    if (node.host.partitions.contains(pid) && node.host.partitions[pid].txns_start < below)
      node.dead_below(pid, below);
    return true;
  }

  bool run() {
    if (!node.start()) return false;
    if (!push_some(1) || !push_some(2) || !push_some(3)) return false;
    if (!settle(2, false) || !retain(1, 3) || !retain(2, 2) || !settle(4, true)) return false;
    if (!retain(1, 5) || !retain(3, 6) || !settle(6, true)) return false;  // all of 3: its log goes
    if (!push_some(3) || !push_some(1) || !settle(2, false)) return false;
    if (!retain(2, 6) || !retain(1, 10) || !settle(6, true)) return false;
    node.upkeep.reset();
    return node.logs->close().has_value();
  }

  void lose_power(Loss loss, std::uint64_t seed) {
    SeededRandom random(seed);
    if (loss == Loss::by_sector) {
      node.disk.crash_torn(random);
    } else {
      node.disk.crash();
    }
  }

  // Everything at or above what the checkpoint calls dead; what was not acknowledged may be there or not.
  void check() {
    for (const auto& [pid, next] : next_offset) {
      const auto known = node.on_disk.partitions.find(pid);
      const std::uint64_t dead_below = known == node.on_disk.partitions.end() ? 0 : known->second.txns_start;
      const std::uint64_t from = std::min(dead_below, next);
      const auto texts = node.texts({log_of(pid)}, {pid}, from);
      ASSERT_GE(texts.size(), next - from) << pid;
      for (std::size_t i = 0; i < texts.size(); ++i) ASSERT_EQ(texts[i], text(pid, from + i));
    }
  }

  void reopen_and_check() {
    const auto opened = node.start();
    ASSERT_TRUE(opened) << opened.error().what;
    check();
    for (const auto& [path, bytes] : node.disk.files()) {
      EXPECT_FALSE(path.ends_with(".compact") || path.ends_with(".tmp")) << path;
      EXPECT_EQ(path.find(".dead"), std::string::npos) << path;
    }
    // Apply would have made these partitions again.
    for (const auto& [pid, next] : next_offset)
      node.host.partitions.try_emplace(pid, UpkeepHost::Partition{.log = {log_of(pid)}, .txns_start = 0});
  }
  // In the end nothing is left but the newest entries, for all messages are dead.
  void finish() {
    for (const auto& [pid, next] : next_offset) node.dead_below(pid, 1'000);
    ASSERT_TRUE(settle(12, true));
    for (const auto& [path, bytes] : node.disk.files())
      EXPECT_TRUE(path.find("/q0/") != std::string::npos || !path.ends_with(".qlog")) << path;
    EXPECT_LT(node.logs->bytes_on_disk(), 2'000u);
  }
};

void crash_everywhere(Loss loss) {
  for (std::uint64_t changes = 0;; ++changes) {
    SCOPED_TRACE(changes);
    Script script;
    script.node.disk.power_off_after(changes);
    const bool finished = script.run();
    if (finished) {
      for (const char* event : {"rewritten", "log_removed"})
        EXPECT_NE(std::ranges::find(script.node.log.events, event), script.node.log.events.end()) << event;
    }
    script.lose_power(loss, changes);
    script.reopen_and_check();
    if (testing::Test::HasFailure()) return;
    script.finish();
    script.lose_power(loss, changes + 1);
    script.reopen_and_check();
    if (testing::Test::HasFailure()) return;
    if (finished) {
      EXPECT_GT(changes, 200u);
      return;
    }
    ASSERT_LT(changes, 5000u);
  }
}

// RE-8, RE-9, ID-3, RC-6
TEST(UpkeepCrash, AtEveryChangeLosingAllThatWasNotSynced) {
  crash_everywhere(Loss::all_unsynced);
}

// RE-8, RE-9, ID-3, RC-6
TEST(UpkeepCrash, AtEveryChangeTearingWhatWasNotSynced) {
  crash_everywhere(Loss::by_sector);
}

}  // namespace
}  // namespace queen::qlog
