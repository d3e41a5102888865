// Which logs an entry leaves a record in: the table of storage.md 3.2.
#include "broker/placement.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "store/keys.h"
#include "store/rows.h"
#include "store/store.h"

namespace queen::broker {
namespace {

constexpr std::string_view kTenant = kDefaultTenant;

class Placement : public ::testing::Test {
 protected:
  Placement() {
    store::PartitionRow row;
    row.tenant = kTenant;
    row.queue = "q";
    row.partition = "p";
    store_.put(store::Keyspace::partitions, store::partition_key(Pid{1}), row.encode());
  }
  std::vector<LogId> touched(machine::Effect effect) const {
    machine::Entry entry;
    entry.effects.push_back(std::move(effect));
    return touched_logs(entry, layout_, store_, [this](LogId) { return there_; });
  }

  store::Store store_;
  qlog::Layout layout_;
  const LogId log_ = qlog::Layout::queue_id(kTenant, "q");
  bool there_ = true;
};

machine::Watermark watermark_of(Pid pid) {
  machine::Watermark mark;
  mark.pid = pid;
  return mark;
}
std::vector<machine::Effect> takers() {
  return {watermark_of(Pid{1}),
          machine::PartitionDelete{Pid{1}},
          machine::CursorDelete{Pid{1}, "g"},
          machine::QueueDelete{std::string(kTenant), "q"},
          machine::GroupDelete{std::string(kTenant), "q", "g"},
          machine::DlqDelete{std::string(kTenant), "q", Uuid{}}};
}

// LOG table
TEST_F(Placement, DeletionsAndWatermarksGoToTheLogOfTheirQueue) {
  for (const machine::Effect& effect : takers())
    EXPECT_EQ(touched(effect), std::vector{log_}) << effect.index();
}

// Rulings: a watermark for a queue whose log was removed makes none again.
TEST_F(Placement, WhatOnlyTakesAwayMakesNoRemovedLogAgain) {
  there_ = false;
  for (const machine::Effect& effect : takers())
    EXPECT_EQ(touched(effect), std::vector{kSystemLog}) << effect.index();
  machine::Append append;
  append.pid = Pid{1};
  EXPECT_EQ(touched(append), std::vector{log_});  // ID-4
}

// LOG table
TEST_F(Placement, PartitionsThatAreGoneAndGarbageGoToTheSystemLog) {
  EXPECT_EQ(touched(watermark_of(Pid{9})), std::vector{kSystemLog});
  EXPECT_EQ(touched(machine::PartitionDelete{Pid{9}}), std::vector{kSystemLog});
  EXPECT_EQ(touched(machine::GarbageAdd{Uuid{}, 1, {Pid{1}}}), std::vector{kSystemLog});
  EXPECT_EQ(touched(machine::DeleteChunk{10, {Pid{1}}}), std::vector{kSystemLog});
}

// LOG-8
TEST_F(Placement, AnEntryTouchesTheUnionOfItsEffectsElseTheSystemLog) {
  machine::Entry entry;
  EXPECT_EQ(touched_logs(entry, layout_, store_, [](LogId) { return true; }), std::vector{kSystemLog});
  entry.effects.emplace_back(machine::KvDelete{std::string(kTenant), "ns", "k"});
  entry.effects.push_back(watermark_of(Pid{1}));
  entry.effects.emplace_back(machine::QueueUpsert{std::string(kTenant), "other", {}});
  std::vector<LogId> all{kSystemLog, log_, qlog::Layout::queue_id(kTenant, "other")};
  std::sort(all.begin(), all.end());
  EXPECT_EQ(touched_logs(entry, layout_, store_, [](LogId) { return true; }), all);
}

// LOG-11: the entry that makes a partition, and appends planned behind it, find its log before apply does.
TEST_F(Placement, APartitionThatIsOnlyPlannedHasItsLog) {
  machine::Entry entry;
  entry.effects.emplace_back(machine::PartitionCreate{Pid{77}, Uuid{}, std::string(kTenant), "q", "new", 1});
  machine::Append append;
  append.pid = Pid{77};
  append.queue_id = log_.value;
  entry.effects.emplace_back(append);
  EXPECT_EQ(touched_logs(entry, layout_, store_, [](LogId) { return true; }), std::vector{log_});
}

}  // namespace
}  // namespace queen::broker
