// A cycle over another one: what it plans is seen by itself alone until it is kept. Dropped instead, it
// leaves no effect, no row, no number taken and nothing in the caches that decide (api-messaging.md T-1).
#pragma once

#include <utility>

#include "machine/detail/cycle.h"
#include "store/overlay.h"

namespace queen::machine::detail {

class Trial {
 public:
  // `real` must outlive the trial and stay as it is until keep().
  explicit Trial(Cycle& real)
      : real_(real),
        rows_(real.view),
        view_(rows_),
        log_(real.log),
        cycle_{view_,     real.now, real.index, real.commands,  log_, real.dedup, hints_,
               real.push, entry_,   {},         Standing::trial} {}
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  Cycle& cycle() { return cycle_; }

  // Emits into the real cycle what was emitted on trial. Once. The effects run again there: their place in
  // the entry is another one, and rows keep it.
  void keep() {
    for (Effect& effect : entry_.effects) real_.emit(std::move(effect));
    real_.log = log_;
    real_.hints.learn(hints_);
  }

 private:
  Cycle& real_;
  store::Overlay rows_;
  FoldingView view_;
  LogState log_;
  GroupHints hints_;
  Entry entry_;
  Cycle cycle_;
};

}  // namespace queen::machine::detail
