#include "broker/store_scrub.h"

#include <algorithm>

#include "base/invariant.h"

namespace queen::broker {
namespace {

// A step holds the read gate, or the checkpoint thread, for some 50 µs.
constexpr std::uint64_t kRowsPerStepMax = 256;
constexpr std::int64_t kSecondUs = 1'000'000;
// Ten steps a second at a low rate are smoother than one.
constexpr std::uint64_t kStepsPerSecond = 10;
constexpr std::size_t kRowsAtOnce = 4096;

std::size_t rows_per_step(std::uint64_t rows_per_s) {
  return std::clamp<std::uint64_t>(rows_per_s / kStepsPerSecond, 1, kRowsPerStepMax);
}

}  // namespace

StoreScrub::StoreScrub(const store::Store& store, store::CheckpointFile& file, Executor& checkpoint,
                       Limits limits, std::function<void(Error)> damaged, Logger log)
    : scrub_(store, file),
      checkpoint_(checkpoint),
      limits_(limits),
      rows_per_step_(rows_per_step(limits.rows_per_s)),
      damaged_(std::move(damaged)),
      log_(std::move(log)) {}

void StoreScrub::start(Random& random) {
  if (limits_.every_us == 0) return;
  const auto share = static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(limits_.every_us));
  checkpoint_.post_after(share, [this] { begin_pass(); });
}

void StoreScrub::begin_pass() {
  began_us_ = checkpoint_.clock().mono_us();
  rows_ = 0;
  step();
}

void StoreScrub::step() {
  const auto done = scrub_.step(rows_per_step_);
  if (!done && done.error().code == Errc::corrupt) return damaged_(done.error());
  if (!done) {
    // The file cannot be read now; the next checkpoint will say so louder than this.
    log_.warn("store_scrub_failed", {{"why", done.error().what}});
    checkpoint_.post_after(limits_.every_us, [this] { begin_pass(); });
    return;
  }
  rows_ += done->rows;
  if (done->pass_done) return pass_done();
  const auto wait = static_cast<std::int64_t>(done->rows * kSecondUs / limits_.rows_per_s);
  checkpoint_.post_after(wait, [this] { step(); });
}

void StoreScrub::pass_done() {
  const std::int64_t took = checkpoint_.clock().mono_us() - began_us_;
  last_pass_took_us_ = took;
  last_pass_wall_us_ = checkpoint_.clock().wall_us();
  ++passes_;
  log_.info("store_scrubbed",
            {{"tables", store::kKeyspaceCount}, {"rows", rows_.load()}, {"seconds", took / kSecondUs}});
  // A pass that took longer than the period is followed by the next at once.
  checkpoint_.post_after(std::max<std::int64_t>(limits_.every_us - took, 0), [this] { begin_pass(); });
}

ScrubFigures StoreScrub::figures() const {
  return {passes_.load(), rows_.load(), last_pass_wall_us_.load(), last_pass_took_us_.load()};
}

Status verify_store(const store::Store& store, store::CheckpointFile& file, Clock& clock, Logger log) {
  store::Scrub scrub(store, file);
  const std::int64_t began = clock.mono_us();
  std::uint64_t rows = 0;
  for (bool done = false; !done;) {
    const auto step = scrub.step(kRowsAtOnce);
    if (!step) return step.error();
    rows += step->rows;
    done = step->pass_done;
  }
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < store::kKeyspaceCount; ++i)
    bytes += store.bytes(static_cast<store::Keyspace>(i));
  log.info("store_verified", {{"tables", store::kKeyspaceCount},
                              {"rows", rows},
                              {"bytes", bytes},
                              {"seconds", static_cast<double>(clock.mono_us() - began) / kSecondUs}});
  return {};
}

void end_damaged(store::Store& store, const Error& damage) {
  store.poison();
  invariant_failed("the store's rows verify", __FILE__, __LINE__, damage.what);
}

}  // namespace queen::broker
