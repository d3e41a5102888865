// The only place that decides: commands in, effects and outcomes out. A pure function of the applied state,
// what is planned and not applied yet, the commands and `wall_us`: no I/O, no clock, no randomness
// (storage.md 7).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "machine/commands.h"
#include "machine/effects.h"
#include "store/store.h"

namespace queen::machine {

struct PlannedCycle {
  std::optional<Entry> entry;     // nothing when no command needed an effect (EN-7)
  std::vector<Outcome> outcomes;  // aligned with the commands
};

// Runs effects on a view: the same code for the planner's overlay and for apply. Deterministic, no I/O, no
// clock. Errors: corrupt (fatal to the node), naming the effect.
Status run_effect(store::View& view, const Effect& effect, EntryIndex index, std::uint32_t ordinal,
                  std::int64_t now_us);

// One per leader. Calls from one thread. Takes the store's read gate inside plan().
class Planner {
 public:
  explicit Planner(const store::Store& store);
  ~Planner();

  // Plans `commands` in order into one entry that will get index `index`. What it planned counts as decided
  // until applied() or reset(). Stamps: now = max(wall_us, every earlier now + 1, every earlier stamp + 1)
  // (PL-5, HD-27 is the caller's clock). Outcomes are to be answered once the entry is applied; those of a
  // cycle without entry, once every earlier entry is applied (their answers may rest on it).
  PlannedCycle plan(std::span<const Command* const> commands, EntryIndex index, std::int64_t wall_us);

  // Entries up to `index` are in the store: their overlay is forgotten.
  void applied(EntryIndex index);
  // Forgets everything planned and not applied (an entry was lost).
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace queen::machine
