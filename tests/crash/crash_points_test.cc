// The power goes off before every change of the disk, in several ways, while a node does all that it can do.
// What was answered is there afterwards, what was not is there wholly or not at all, and recovery comes to
// the same state however often it is interrupted.
#include <gtest/gtest.h>

#include "long_run.h"
#include "workload.h"

namespace queen::crash {
namespace {

constexpr int kKilled = 3;

struct Recovered {
  std::uint64_t index = 0;
  std::uint64_t digest = 0;
  bool operator==(const Recovered&) const = default;
};

class CrashEverywhere {
 public:
  CrashEverywhere(const Shape& shape, std::uint64_t seed)
      : options_(shape.options), seed_(seed), work_(disk_, shape.options, seed) {}

  // Only runs the workload, to find what differs before any crash.
  void without_crashes() { look_ = false; }
  void run(int steps) {
    SCOPED_TRACE(seed_);
    // The directory that a node is given is there.
    ASSERT_TRUE(disk_.make_dirs("/data"));
    ASSERT_TRUE(disk_.sync_dir("/"));
    if (look_) disk_.before_change([this] { at_change(); });
    const auto started = work_.start();
    ASSERT_TRUE(started) << started.error().what;
    work_.run_every_kind();
    work_.run(steps);
    disk_.before_change({});
    EXPECT_EQ(work_.wrong(), "");
    EXPECT_EQ(work_.refused_boot(), "");
    EXPECT_FALSE(work_.node().stopped()) << work_.node().cause();
    for (const auto& [index, digest] : unanswered_) {
      if (const auto live = work_.digest_at(index)) {
        EXPECT_EQ(*live, digest) << "entry " << index;
      }
    }
  }
  std::uint64_t points() const { return points_; }
  std::uint64_t changes() const { return changes_; }
  const std::map<std::string, int>& did() const { return work_.did(); }

 private:
  void at_change() {
    if (testing::Test::HasFailure()) return;
    ++changes_;
    for (int variant = 0; variant <= kKilled; ++variant) {
      auto disk = disk_.copy();
      SeededRandom random(seed_ * 1'000'003 + changes_ * 8 + static_cast<std::uint64_t>(variant));
      if (variant == 0) disk->crash();
      if (variant > 0 && variant < kKilled) disk->crash_any(random);
      // kKilled: the process is killed and the power goes off later, once it has served what it found.
      crash_point(*disk, variant);
      if (!testing::Test::HasFailure()) continue;
      ADD_FAILURE() << "change " << changes_ << " variant " << variant;
      return;
    }
  }

  void crash_point(disk::RamDisk& disk, int variant) {
    ++points_;
    const bool deep = changes_ % 16 == static_cast<std::uint64_t>(variant);
    std::unique_ptr<disk::RamDisk> before;
    if (deep) before = disk.copy();
    Recovered first;
    recover(disk, first, deep ? Look::at_all : Look::at_what_is_there);
    if (testing::Test::HasFailure()) return;
    // RC-6: once more, after another power loss.
    disk.crash();
    Recovered second;
    recover(disk, second, Look::away);
    if (testing::Test::HasFailure()) return;
    EXPECT_EQ(first.index, second.index);
    EXPECT_EQ(first.digest, second.digest);
    if (variant == 1 || variant == 2) go_on(disk, first.index, variant);
    if (!deep || testing::Test::HasFailure()) return;
    // What a killed process had not synced may still be lost before the first recovery is over.
    crash_in_recovery(*before, variant == kKilled ? std::nullopt : std::optional(first));
  }

  // RC-4: the next entry takes the index behind what was found, and nothing that was cut comes back. It is
  // answered, so the power may go off in any way.
  void go_on(disk::RamDisk& disk, std::uint64_t found, int variant) {
    Model model = work_.model_at(found);
    ManualClock clock;
    clock.advance(3'600'000'000);
    {
      MiniNode node(disk, clock, options_);
      ASSERT_TRUE(node.open());
      const std::vector<std::vector<std::uint32_t>> numbers{{4'000'001, 4'000'002}, {4'000'003}};
      machine::PushCommand push;
      push.batches.push_back(message_batch("q0", "p0", numbers[0]));
      push.batches.push_back(message_batch("q1", "p1", numbers[1]));
      const machine::Command command{std::string(kDefaultTenant), {}, std::move(push)};
      const auto planned = node.plan({command});
      ASSERT_EQ(planned.index, found + 1);
      model.planned(command, planned.outcomes.at(0), numbers);
      model.entry(*planned.entry);
      const auto written = node.write_and_sync({planned});
      ASSERT_TRUE(written) << written.error().what;
      ASSERT_TRUE(node.apply({planned}));
      if (variant % 2 == 0) node.checkpoint();
    }
    SeededRandom random(points_);
    disk.crash_any(random);
    MiniNode node(disk, clock, options_);
    const auto opened = node.open();
    ASSERT_TRUE(opened) << opened.error().what;
    ASSERT_EQ(node.applied(), found + 1);
    ASSERT_EQ(difference(model, node), "");
  }

  // RC-6: at each change that recovery itself makes.
  void crash_in_recovery(disk::RamDisk& disk, const std::optional<Recovered>& want) {
    std::vector<std::unique_ptr<disk::RamDisk>> crashed;
    SeededRandom random(seed_ + points_);
    disk.before_change([&] {
      crashed.push_back(disk.copy());
      if (crashed.size() % 2 == 0) {
        crashed.back()->crash();
      } else {
        crashed.back()->crash_any(random);
      }
    });
    Recovered whole;
    recover(disk, whole, Look::away);
    disk.before_change({});
    for (auto& each : crashed) {
      if (testing::Test::HasFailure()) return;
      ++points_;
      Recovered again;
      recover(*each, again, Look::at_what_is_there);
      if (!want) continue;
      EXPECT_EQ(again.index, want->index);
      EXPECT_EQ(again.digest, want->digest);
    }
  }

  enum class Look : std::uint8_t { away, at_what_is_there, at_all };

  void recover(disk::RamDisk& disk, Recovered& found, Look look) {
    ManualClock clock;
    MiniNode node(disk, clock, options_);
    const auto opened = node.open();
    ASSERT_TRUE(opened) << opened.error().what;
    found = {node.applied(), node.store().digest()};
    ASSERT_GE(found.index, work_.answered());
    ASSERT_LE(found.index, work_.written());
    if (look == Look::away) return;
    ASSERT_EQ(difference(work_.model_at(found.index), node), "") << "entry " << found.index;
    if (const auto live = work_.digest_at(found.index)) {
      ASSERT_EQ(*live, found.digest) << "entry " << found.index;
    } else if (found.index > 0) {
      const auto known = unanswered_.try_emplace(found.index, found.digest);
      ASSERT_EQ(known.first->second, found.digest);
    }
    // Last, because the node then knows of plans that are not written.
    if (look == Look::at_all) {
      ASSERT_EQ(late_group_differs(work_.model_at(found.index), node), "") << "entry " << found.index;
    }
  }

  NodeOptions options_;
  const std::uint64_t seed_;
  disk::RamDisk disk_;
  Workload work_;
  std::map<std::uint64_t, std::uint64_t> unanswered_;
  std::uint64_t points_ = 0, changes_ = 0;
  bool look_ = true;
};

// DUR-3, DUR-8, RC-1, RC-3, RC-4, RC-6, CP-2
TEST(CrashPoints, WhatWasAnsweredIsThereAfterPowerLossAtEveryChangeOfTheDisk) {
  std::uint64_t points = 0, seed = 0;
  std::map<std::string, int> did;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.name);
    CrashEverywhere crash(shape, ++seed);
    crash.run(50);
    points += crash.points();
    for (const auto& [what, times] : crash.did()) did[what] += times;
    std::printf("%s: %llu changes, %llu crash points\n", shape.name.c_str(),
                static_cast<unsigned long long>(crash.changes()),
                static_cast<unsigned long long>(crash.points()));
    if (HasFailure()) return;
  }
  for (const auto& [what, times] : did) {
    std::printf("  %s: %d\n", what.c_str(), times);
    EXPECT_GT(times, 0) << what;
  }
  std::printf("crash points: %llu\n", static_cast<unsigned long long>(points));
  EXPECT_GE(points, 20'000u);
}

// The script itself, over many seeds: cheap, and a difference here is no matter of crashes.
TEST(CrashPoints, TheLiveNodeHoldsTheModelAtEveryStepOfManySeeds) {
  for (std::uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    CrashEverywhere crash(shapes()[seed % 4], seed);
    crash.without_crashes();
    crash.run(200);
  }
}

class LongRun : public testing::Test {
 public:
  LongRun(std::uint64_t seed, std::uint64_t points) : seed_(seed), points_wanted_(points) {}
  void TestBody() override {
    std::uint64_t points = 0;
    const auto all = shapes();
    for (std::uint64_t round = 0; points < points_wanted_ && !HasFailure(); ++round) {
      SCOPED_TRACE("QUEEN_CRASH_SEED=" + std::to_string(seed_ + round));
      const Shape& shape = all[(seed_ + round) % all.size()];
      CrashEverywhere crash(shape, seed_ + round);
      crash.run(200);
      points += crash.points();
      std::printf("seed %llu, %s: %llu crash points in all\n", static_cast<unsigned long long>(seed_ + round),
                  shape.name.c_str(), static_cast<unsigned long long>(points));
      std::fflush(stdout);
    }
  }

 private:
  const std::uint64_t seed_, points_wanted_;
};

}  // namespace

void register_long_run(std::uint64_t seed, std::uint64_t points) {
  testing::RegisterTest("CrashPoints", "LongSeededRun", nullptr, nullptr, __FILE__, __LINE__,
                        [seed, points]() -> testing::Test* { return new LongRun(seed, points); });
}

}  // namespace queen::crash
