// Seeded interleavings of pushes, clock moves, action orders, failures and kills: whatever happens, every
// record is shipped exactly once, in the window its stamp belongs to, and the windows tile ([B1]).
#include <gtest/gtest.h>

#include <random>

#include "sink/tests/fake_log.h"
#include "sink/window_engine.h"

namespace queen::sink::test {
namespace {

class Storm {
 public:
  explicit Storm(unsigned seed) : random_(seed), driver_(log_, settings(seed)) {
    log_.records_per_answer = 1 + seed % 5;
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    finish();
  }
  const Driver& driver() const { return driver_; }
  const FakeLog& log() const { return log_; }
  const std::map<std::uint64_t, Shipped>& first_uploads() const { return first_uploads_; }

 private:
  static EngineSettings settings(unsigned seed) {
    auto out = small_windows();
    out.max_window_us = 30 * kSecond;
    out.target_bytes = 600 + 400 * (seed % 3);
    out.checkpoint_every = 1 + seed % 4;
    out.discovery_page = 1 + seed % 4;
    out.fetch_entries_max = 1 + seed % 3;
    out.full_sweep_every = 5;
    out.prune_after_windows = 10;
    return out;
  }
  std::size_t below(std::size_t bound) { return random_() % bound; }

  void step() {
    switch (below(12)) {
      case 0:
      case 1:
        return void(log_.push("p" + std::to_string(below(9))));
      case 2:
        return log_.tick(static_cast<std::int64_t>(below(8)) * kSecond);
      case 3:
        return below(20) == 0 ? log_.tick(static_cast<std::int64_t>(below(3)) * kHour) : void();
      case 4:
        return below(3) == 0 ? driver_.engine().force_close() : void();
      case 5:
        return kill_sometimes();
      case 6:
        return fail_one();
      case 7:
        return driver_.engine().set_read_pace(below(4) == 0 ? WindowEngine::ReadPace::narrow
                                                            : WindowEngine::ReadPace::full);
      default:
        break;
    }
    driver_.take();
    remember_uploads();
    if (!driver_.pending.empty()) driver_.perform(below(driver_.pending.size()));
  }
  void kill_sometimes() {
    if (below(40) == 0) driver_.restart();
  }
  void fail_one() {
    for (std::size_t i = 0; i < driver_.pending.size(); ++i) {
      const auto* call = std::get_if<FetchAction>(&driver_.pending[i]);
      const bool page = std::holds_alternative<DiscoverAction>(driver_.pending[i]);
      if (call == nullptr && !page) continue;
      if (call != nullptr) driver_.engine().on_fetch_failed(call->call);
      if (page) driver_.engine().on_discovery_failed();
      driver_.pending.erase(driver_.pending.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
  void remember_uploads() {
    for (const Action& action : driver_.pending)
      if (const auto* upload = std::get_if<UploadAction>(&action)) {
        const Shipped plan = shipped_of(*upload->plan);
        const auto [at, is_new] = first_uploads_.emplace(plan.bounds.k, plan);
        EXPECT_EQ(at->second, plan) << "window " << plan.bounds.k << " was built twice and differs";
      }
  }
  void finish() {
    driver_.engine().set_read_pace(WindowEngine::ReadPace::full);
    log_.tick(2 * kHour);
    for (int i = 0; i < 40; ++i) driver_.idle(20 * kSecond);
  }

  FakeLog log_;
  std::mt19937 random_;
  Driver driver_;
  std::map<std::uint64_t, Shipped> first_uploads_;
};

// Every window holds exactly the log's records of its span.
void expect_exactly_once(const Storm& storm) {
  std::size_t shipped = 0;
  for (const Shipped& window : storm.driver().windows) {
    std::vector<std::pair<std::string, std::uint64_t>> want;
    for (const auto& [name, partition] : storm.log().partitions)
      for (const LogRecord& record : partition.records)
        if (record.ts >= window.bounds.t_start && record.ts < window.bounds.t_end)
          want.emplace_back(name, record.offset);
    EXPECT_EQ(window.records, want) << "window " << window.bounds.k;
    EXPECT_TRUE(window.lost.empty());
    shipped += want.size();
  }
  std::size_t all = 0;
  for (const auto& [name, partition] : storm.log().partitions) all += partition.records.size();
  EXPECT_EQ(shipped, all);
}

void expect_tiles(const Storm& storm) {
  std::optional<std::int64_t> end;
  std::uint64_t k = 0;
  for (const Shipped& window : storm.driver().windows) {
    EXPECT_EQ(window.bounds.k, ++k);
    EXPECT_FALSE(window.records.empty());
    EXPECT_LE(window.bounds.t_end, *next_boundary(Align::hour, window.bounds.t_start));
    EXPECT_LE(window.bounds.t_end, storm.log().now - storm.driver().engine_settings().guard_us);
    const bool stepped = window.bounds.t_start == align_floor(Align::hour, window.bounds.t_start);
    if (end) {
      EXPECT_GE(window.bounds.t_start, *end);
      EXPECT_TRUE(window.bounds.t_start == *end || stepped) << "window " << k;
    }
    end = window.bounds.t_end;
  }
}

class Interleavings : public testing::TestWithParam<unsigned> {};

TEST_P(Interleavings, ShipEveryRecordOnceInWindowsThatTile) {
  Storm storm(GetParam());
  storm.run(3000);
  EXPECT_GT(storm.driver().windows.size(), 5U);
  expect_exactly_once(storm);
  expect_tiles(storm);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Interleavings, testing::Range(1U, 41U));

}  // namespace
}  // namespace queen::sink::test
