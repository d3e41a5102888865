// Browsing and one message in detail: api-messaging.md 11.1, 11.2, M-1.
#include <fmt/format.h>

#include "broker/tests/resources_rig.h"

namespace queen::broker {
namespace {

using machine::AckStatus;
using testing::kOther;
using testing::kSecond;
using testing::kTenant;
using testing::Rig;

const std::string kQueueMode{machine::kQueueMode};

TEST(MessageReads, NewestComeFirstOverAllPartitions) {
  Rig rig;
  rig.push("q", "a", {"1", "2"});
  rig.shift(1);
  rig.push("r", "b", {"3"});
  rig.shift(1);
  rig.push("q", "a", {"4"});
  EXPECT_EQ(rig.browse(rig.everything()), "4 3 2 1 ");
  MessageQuery query = rig.everything();
  query.queue = "q";
  EXPECT_EQ(rig.browse(query), "4 2 1 ");
  query.partition = "b";
  EXPECT_EQ(rig.browse(query), "");
  query.queue.reset();
  EXPECT_EQ(rig.browse(query), "3 ");
  query.queue = "none";
  EXPECT_EQ(rig.browse(query), "");
  EXPECT_EQ(rig.browse(rig.everything(), kOther), "");
}

TEST(MessageReads, PagesFollowEachOther) {
  Rig rig;
  for (int i = 0; i < 20; ++i) {
    rig.push("q", i % 2 == 0 ? "a" : "b", {fmt::format("{}x", i), fmt::format("{}y", i)});
    rig.shift(1);
  }
  const std::string all = rig.browse(rig.everything());
  EXPECT_TRUE(all.starts_with("19y 19x 18y 18x ")) << all;
  std::string joined;
  MessageQuery query = rig.everything();
  query.limit = 7;
  for (query.offset = 0; query.offset <= 40; query.offset += 7) joined += rig.browse(query);
  EXPECT_EQ(joined, all);
}

TEST(MessageReads, TheWindowIsByStampsItsEndExclusive) {
  Rig rig;
  std::vector<std::int64_t> stamps;
  for (int i = 0; i < 5; ++i) {
    rig.push("q", "a", {std::to_string(i)});
    rig.shift(10);
  }
  const auto view = rig.resources().messages(kTenant, rig.everything());
  for (const auto& message : view->messages) stamps.push_back(message.created_at);
  MessageQuery query = rig.everything();
  query.from_us = stamps[3];
  query.to_us = stamps[1];
  EXPECT_EQ(rig.browse(query), "2 1 ");
  query.to_us = stamps[1] + 1;
  EXPECT_EQ(rig.browse(query), "3 2 1 ");
  query.from_us = query.to_us;
  query.to_us = query.from_us - 5;
  EXPECT_EQ(rig.browse(query), "");
}

TEST(MessageReads, LabelsNarrowTheQueues) {
  Rig rig;
  rig.configure("x", {}, {{"namespace", "acme"}, {"task", "read"}});
  rig.configure("y", {}, {{"namespace", "acme"}, {"task", "write"}});
  rig.push("x", "a", {"1"});
  rig.push("y", "a", {"2"});
  MessageQuery query = rig.everything();
  query.namespace_name = "acme";
  EXPECT_EQ(rig.browse(query), "2 1 ");
  query.task = "read";
  EXPECT_EQ(rig.browse(query), "1 ");
  query.namespace_name = "other";
  EXPECT_EQ(rig.browse(query), "");
}

// M-1, and that the filter comes before the paging.
TEST(MessageReads, StatusFollowsTheSlowestNamedGroup) {
  Rig rig;
  rig.push("q", "a", {"1", "2", "3", "4", "5"});
  const auto by = [&](MessageStatus status, std::uint64_t limit = 200) {
    MessageQuery query = rig.everything();
    query.status = status;
    query.limit = limit;
    return rig.browse(query);
  };
  EXPECT_EQ(by(MessageStatus::pending), "5 4 3 2 1 ");
  rig.ack(kQueueMode, rig.pop("q", kQueueMode, 3));
  EXPECT_EQ(by(MessageStatus::completed), "3 2 1 ");
  EXPECT_EQ(by(MessageStatus::pending), "5 4 ");
  rig.ack("g", rig.pop("q", "g", 1), AckStatus::dlq);
  rig.ack("g", rig.pop("q", "g", 1));
  EXPECT_EQ(by(MessageStatus::dead_letter), "1 ");
  EXPECT_EQ(by(MessageStatus::completed), "2 ");
  EXPECT_EQ(by(MessageStatus::pending), "5 4 3 ");
  rig.pop("q", "g", 1);
  EXPECT_EQ(by(MessageStatus::pending), "");
  EXPECT_EQ(by(MessageStatus::processing), "5 4 3 ");
  EXPECT_EQ(by(MessageStatus::completed, 1), "2 ");
  const auto view = rig.resources().messages(kTenant, rig.everything());
  std::string seen;
  for (const auto& message : view->messages)
    seen += fmt::format("{}{}{}/{} ", static_cast<int>(message.status),
                        static_cast<int>(*message.queue_status), message.consumed_by, message.groups);
  EXPECT_EQ(seen, "100/1 100/1 120/1 221/1 321/1 ");
  EXPECT_TRUE(view->messages[0].lease_expires_at);
  EXPECT_FALSE(view->messages[3].lease_expires_at);
  EXPECT_TRUE(view->mode.queue_mode);
  EXPECT_EQ(view->mode.groups, 1U);
  rig.shift(61);
  EXPECT_EQ(by(MessageStatus::pending), "5 4 3 ");
}

TEST(MessageReads, ARowHasItsMessage) {
  Rig rig;
  rig.push("q", "a", {"1"});
  rig.push("q", "a", {"2", "3"});
  const auto view = rig.resources().messages(kTenant, rig.everything());
  ASSERT_EQ(view->messages.size(), 3U);
  const MessageView& row = view->messages[0];
  EXPECT_EQ(row.payload, R"({"id":"3"})");
  EXPECT_TRUE(row.id && row.payload_available);
  EXPECT_EQ(fmt::format("{} {} {} {}", row.offset, row.append_base, row.partition, row.queue->name),
            "2 1 a q");
  EXPECT_EQ(row.partition_id, rig.resources().queue(kTenant, "q", 1)->partitions[0].id);
}

// D-2, RT-10: rows leave RAM and nothing changes; so does a page over both, and one in the log alone.
TEST(MessageReads, AnswersAreTheSameWhetherRowsLeaveRamOrStay) {
  const auto script = [](bool rows_window) {
    Rig rig(rows_window);
    rig.configure("q", {{"dedupWindowSeconds", 1'000}});
    for (int i = 0; i < 40; ++i) {
      rig.push("q", i % 3 == 0 ? "a" : "b", {fmt::format("m{}", i), fmt::format("n{}", i)});
      rig.shift(1);
    }
    rig.ack("g", rig.pop("q", "g", 5), AckStatus::dlq);
    rig.ack("g", rig.pop("q", "g", 8));
    rig.pass(2'000);
    rig.push("q", "a", {"young"});
    std::string out = rig.browse(rig.everything()) + "| ";
    MessageQuery query = rig.everything();
    query.from_us = rig.stamp_of("m11");
    query.to_us = rig.stamp_of("m21");
    out += rig.browse(query) + "| ";
    for (const auto status : {MessageStatus::pending, MessageStatus::completed, MessageStatus::dead_letter}) {
      query = rig.everything();
      query.status = status;
      query.limit = 9;
      query.offset = 2;
      out += rig.browse(query) + "| ";
    }
    for (const char* id : {"m0", "n39", "m22", "young", "never"}) {
      for (const char* partition : {"1", "2"}) {
        const auto found = rig.resources().message(kTenant, partition, id, rig.soon());
        EXPECT_TRUE(found);
        out += *found ? fmt::format("{}@{} ", (*found)->message.payload, (*found)->message.offset) : "- ";
      }
    }
    return out;
  };
  const std::string with_rows = script(false);
  EXPECT_EQ(script(true), with_rows);
  EXPECT_NE(with_rows.find("| n20 m20 n19"), std::string::npos) << with_rows;
  EXPECT_NE(with_rows.find(R"({"id":"n39"}@)"), std::string::npos) << with_rows;
}

TEST(MessageReads, DetailFindsAMessageByNumberAndByUuid) {
  Rig rig;
  rig.push("q", "a", {"1", "2"});
  const Uuid id = rig.resources().queue(kTenant, "q", 1)->partitions[0].id;
  for (const std::string& name : {std::string("1"), id.str()}) {
    const auto found = rig.resources().message(kTenant, name, "2", rig.soon());
    ASSERT_TRUE(found && *found) << name;
    EXPECT_EQ((*found)->message.offset, 1U);
    EXPECT_EQ((*found)->message.payload, R"({"id":"2"})");
    EXPECT_FALSE(*rig.resources().message(kOther, name, "2", rig.soon()));
    EXPECT_FALSE(*rig.resources().message(kTenant, name, "3", rig.soon()));
  }
  for (const char* name :
       {"2", "", "x", "-1", "99999999999999999999999", "01b7c0de-0001-7aaa-8bbb-000000000001"})
    EXPECT_FALSE(*rig.resources().message(kTenant, name, "2", rig.soon())) << name;
}

TEST(MessageReads, DetailTellsOfGroupsAndFailures) {
  Rig rig;
  rig.push("q", "a", {"1", "2"});
  rig.ack("g", rig.pop("q", "g", 1), AckStatus::failed);
  auto found = rig.resources().message(kTenant, "1", "1", rig.soon());
  EXPECT_EQ((*found)->retry_count, 1U);
  EXPECT_FALSE((*found)->error);
  rig.ack("g", rig.pop("q", "g", 1), AckStatus::dlq);
  rig.pop("q", "g", 1);
  found = rig.resources().message(kTenant, "1", "1", rig.soon());
  EXPECT_EQ((*found)->message.status, MessageStatus::dead_letter);
  EXPECT_EQ((*found)->error, "because");
  ASSERT_EQ((*found)->groups.size(), 1U);
  const auto& group = (*found)->groups[0];
  EXPECT_EQ(fmt::format("{} {} {}", group.name, group.committed, group.consumed), "g 0 true");
  EXPECT_TRUE(group.lease_expires_at);
  EXPECT_EQ((*rig.resources().message(kTenant, "1", "2", rig.soon()))->message.status,
            MessageStatus::processing);
}

// RD-3: what is below the log's start is no message, though its id is still known to dedup.
TEST(MessageReads, WhatRetentionTookIsGone) {
  Rig rig;
  rig.configure("q", {{"dedupWindowSeconds", 10'000}, {"retentionEnabled", 1}, {"retentionSeconds", 100}});
  rig.push("q", "a", {"old"});
  rig.shift(60);
  rig.push("q", "a", {"young"});
  rig.pass(50);
  EXPECT_EQ(rig.browse(rig.everything()), "young ");
  EXPECT_FALSE(*rig.resources().message(kTenant, "1", "old", rig.soon()));
  EXPECT_TRUE(*rig.resources().message(kTenant, "1", "young", rig.soon()));
}

TEST(MessageReads, DetailGivesUpAtItsDeadline) {
  Rig rig;
  rig.configure("q", {{"dedupWindowSeconds", 1'000}});
  rig.push("q", "a", {"old"});
  rig.pass(2'000);
  const auto late = rig.resources().message(kTenant, "1", "old", 0);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, "timeout");
}

}  // namespace
}  // namespace queen::broker
