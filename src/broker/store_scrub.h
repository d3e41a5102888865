// The store's scrub at its pace (CR-1, CR-2, CR-3), on the checkpoint thread, between checkpoints.
#pragma once

#include <atomic>
#include <functional>

#include "base/executor.h"
#include "base/ids.h"
#include "base/log.h"
#include "broker/broker.h"
#include "store/scrub.h"

namespace queen::broker {

class StoreScrub {
 public:
  struct Limits {
    std::int64_t every_us = 0;  // 0 = off
    std::uint64_t rows_per_s = 1;
  };
  // `damaged` runs on the checkpoint executor when a row does not verify: the process must end. All that is
  // given must outlive the executor's work.
  StoreScrub(const store::Store& store, store::CheckpointFile& file, Executor& checkpoint, Limits limits,
             std::function<void(Error)> damaged, Logger log);

  // The first pass begins after a random share of the period, so that nodes do not scrub together.
  void start(Random& random);
  // Any thread.
  ScrubFigures figures() const;

 private:
  void begin_pass();
  void step();
  void pass_done();

  store::Scrub scrub_;
  Executor& checkpoint_;
  const Limits limits_;
  const std::size_t rows_per_step_;
  const std::function<void(Error)> damaged_;
  Logger log_;
  std::int64_t began_us_ = 0;  // the running pass
  std::atomic<std::uint64_t> rows_{0};
  std::atomic<std::uint64_t> passes_{0};
  std::atomic<std::int64_t> last_pass_wall_us_{0};
  std::atomic<std::int64_t> last_pass_took_us_{0};
};

// Verifies everything at once (CK-4) and logs a report. Errors: corrupt, as the text of a refusal;
// unavailable.
Status verify_store(const store::Store& store, store::CheckpointFile& file, Clock& clock, Logger log);

// A row is damaged: nobody is served from this store any more, one line names the row, the process ends
// (CR-1).
[[noreturn]] void end_damaged(store::Store& store, const Error& damage);

}  // namespace queen::broker
