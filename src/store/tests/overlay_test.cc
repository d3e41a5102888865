#include "store/overlay.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "store/store.h"
#include "store/tests/model.h"

namespace queen::store {
namespace {

constexpr Keyspace kSpace = Keyspace::kv;

struct Change {
  Bytes key;
  std::optional<Bytes> value;
};
using Entry = std::vector<Change>;

void bring(View& view, const Entry& entry) {
  for (const Change& change : entry) {
    if (change.value)
      view.put(kSpace, change.key, *change.value);
    else
      view.erase(kSpace, change.key);
  }
}

// Entries are planned into the overlay and later applied to the base, in order, at any distance: the overlay
// must always show the state after the last planned entry.
RC_GTEST_PROP(Overlay, ShowsTheBaseWithAllPlannedEntries, ()) {
  Store base;
  Overlay overlay(base);
  Model model;
  std::vector<Entry> entries;
  std::size_t applied = 0;
  const int steps = *rc::gen::inRange(1, 60);
  for (int i = 0; i < steps; ++i) {
    if (applied < entries.size() && *rc::gen::inRange(0, 3) == 0) {
      bring(base, entries[applied++]);
      if (*rc::gen::arbitrary<bool>()) overlay.prune(applied);
    } else {
      Entry entry;
      overlay.set_epoch(entries.size() + 1);
      for (int n = *rc::gen::inRange(1, 5); n > 0; --n) {
        Change change{*keys(), std::nullopt};
        if (*rc::gen::inRange(0, 3) != 0) change.value = *values();
        if (change.value)
          model[change.key] = *change.value;
        else
          model.erase(change.key);
        entry.push_back(change);
      }
      bring(overlay, entry);
      entries.push_back(entry);
    }
    const Bytes at = *keys();
    const Bytes other = *keys();
    expect_same(overlay, kSpace, model, {}, at);
    expect_same(overlay, kSpace, model, BytesView(other).substr(0, 1), at);
    expect_same(overlay, kSpace, model, BytesView(at).substr(0, *rc::gen::inRange<std::size_t>(0, at.size())),
                at);
  }
  while (applied < entries.size()) bring(base, entries[applied++]);
  overlay.prune(applied);
  RC_ASSERT(overlay.changes() == 0U);
  expect_same(overlay, kSpace, model, {}, {});
}

TEST(Overlay, NeverWritesToTheBase) {
  Store base;
  base.put(kSpace, "a", "1");
  Overlay overlay(base);
  overlay.set_epoch(1);
  overlay.put(kSpace, "a", "2");
  overlay.put(kSpace, "b", "2");
  EXPECT_TRUE(overlay.erase(kSpace, "a"));
  EXPECT_EQ(base.get(kSpace, "a"), "1");
  EXPECT_EQ(base.rows(kSpace), 1U);
}

TEST(Overlay, EraseTellsWhetherTheRowWasThere) {
  Store base;
  base.put(kSpace, "a", "1");
  Overlay overlay(base);
  EXPECT_FALSE(overlay.erase(kSpace, "b"));
  EXPECT_TRUE(overlay.erase(kSpace, "a"));
  EXPECT_FALSE(overlay.erase(kSpace, "a"));
  EXPECT_EQ(overlay.get(kSpace, "a"), std::nullopt);
}

TEST(Overlay, PruneKeepsARowThatALaterEntryChangedAgain) {
  Store base;
  Overlay overlay(base);
  overlay.set_epoch(1);
  overlay.put(kSpace, "a", "1");
  overlay.put(kSpace, "b", "1");
  overlay.set_epoch(2);
  overlay.put(kSpace, "a", "2");
  base.put(kSpace, "a", "1");
  base.put(kSpace, "b", "1");
  overlay.prune(1);
  EXPECT_EQ(overlay.changes(), 1U);
  EXPECT_EQ(overlay.get(kSpace, "a"), "2");
  EXPECT_EQ(overlay.get(kSpace, "b"), "1");
}

TEST(Overlay, ClearShowsTheBaseAgainAndMayGoBackInEpochs) {
  Store base;
  base.put(kSpace, "a", "1");
  Overlay overlay(base);
  overlay.set_epoch(9);
  overlay.erase(kSpace, "a");
  overlay.clear();
  overlay.set_epoch(4);
  EXPECT_EQ(overlay.get(kSpace, "a"), "1");
  EXPECT_EQ(overlay.changes(), 0U);
}

TEST(Overlay, ScanStopsWhenTheVisitorSaysSo) {
  Store base;
  base.put(kSpace, "b", "base");
  Overlay overlay(base);
  overlay.put(kSpace, "a", "planned");
  overlay.put(kSpace, "c", "planned");
  for (std::size_t limit = 1; limit <= 3; ++limit)
    EXPECT_EQ(scan_of(overlay, kSpace, {}, {}, limit).size(), limit);
}

}  // namespace
}  // namespace queen::store
