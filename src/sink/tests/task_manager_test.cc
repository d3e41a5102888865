// The manager of a node: probe, tasks, placement, status, drain (s3-sink.md 7.2, 19, 20, 22).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include "sink/sink.h"
#include "sink/tests/borrowed.h"
#include "sink/tests/task_rig.h"

namespace queen::sink::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Managed {
 public:
  Managed(Cell& cell, UnitSettings unit, const std::string& instance)
      : cell_(cell), random_(instance.size() + 3) {
    unit.secret_key = "hush-hush";
    SinkSettings settings{.environment = unit, .node = quick_node(), .ignored = {}};
    settings.node.instance = instance;
    SinkParts parts;
    parts.broker = [&cell](const std::string& /*tenant*/) {
      return std::make_unique<BorrowedPort>(cell.broker);
    };
    parts.store = [&cell](const s3::ClientSettings& /*client*/) {
      return std::make_unique<BorrowedStore>(cell.store);
    };
    manager_ =
        make_sink(settings, std::move(parts), cell.executor, random_, Logger(null_log(), "x"), "0.1.0");
    manager_->start();
  }
  ~Managed() {
    cell_.broker.fail_kv = 0;
    EXPECT_TRUE(drain());
  }
  bool drain(std::int64_t us = 60 * kSecond) {
    if (!asked_) manager_->drain([this] { drained_ = true; });
    asked_ = true;
    return cell_.run_until([this] { return drained_; }, us);
  }
  SinkManager& manager() { return *manager_; }
  std::string status() const { return manager_->status_json(); }
  int held() const {
    simdjson::dom::parser parser;
    simdjson::dom::element json;
    std::int64_t held = -1;
    if (parser.parse(status()).get(json) || json["sinks"].at(0)["placement"]["held"].get(held)) return -1;
    return static_cast<int>(held);
  }

 private:
  Cell& cell_;
  SeededRandom random_;
  std::unique_ptr<SinkManager> manager_;
  bool asked_ = false, drained_ = false;
};

TEST(SinkManager, ShipsReportsAndReleasesEverything) {
  Cell cell;
  cell.broker.push(kQueue, "p", "1");
  Managed node(cell, quick_unit(), "node-1@a");
  ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
  cell.run_for(4 * kSecond);
  const std::string status = node.status();
  simdjson::dom::parser parser;
  simdjson::dom::element json;
  ASSERT_EQ(parser.parse(status).get(json), simdjson::SUCCESS) << status;
  EXPECT_THAT(
      status,
      HasSubstr(R"({"mode":"in-process","phase":"running","threads":1,"controlPlane":{"error":null})"));
  EXPECT_THAT(status, HasSubstr(R"("bucket":{"reachable":true,"error":null,"checkedAt":"2027-)"));
  EXPECT_THAT(
      status,
      HasSubstr(
          R"("health":{"ok":true,"queues":1},"placement":{"nodes":1,"queues":1,"share":1,"held":1,"givingBack":null})"));
  EXPECT_THAT(
      status,
      HasSubstr(R"({"name":"rides","ownedHere":true,"heldBy":null,"state":"filling","k":1,"tEnd":"2027-)"));
  EXPECT_THAT(status, HasSubstr(R"("windowsCommitted":1,"records":1,)"));
  EXPECT_THAT(status, Not(HasSubstr("hush-hush")));
  EXPECT_TRUE(node.manager().healthy());
  EXPECT_TRUE(node.drain(5 * kSecond));
  EXPECT_THAT(node.status(), HasSubstr(R"("phase":"stopped")"));
  EXPECT_FALSE(cell.broker.live(lease_key("default", kQueue)));
  EXPECT_FALSE(cell.broker.live(presence_key("default", "node-1@a")));
}

TEST(SinkManager, UnreachableBucketStartsNothingAndRecovers) {
  Cell cell;
  cell.broker.push(kQueue, "p", "1");
  s3::S3Error refused;
  refused.failure = s3::Failure::status;
  refused.status = 403;
  refused.retriable = false;
  refused.sentence = "LIST answers 403 AccessDenied";
  cell.store.fail_next(s3::MemoryStore::Kind::list, 4, refused);
  Managed node(cell, quick_unit(), "node-1@a");
  cell.run_for(3 * kSecond);
  EXPECT_EQ(cell.broker.kv_calls, 0U);
  EXPECT_THAT(node.status(), HasSubstr(R"("ok":false)"));
  EXPECT_THAT(node.status(), HasSubstr(R"("reachable":false,"error":"the bucket lake at http://minio:9000)"));
  EXPECT_THAT(node.status(), HasSubstr("QUEEN_S3_PATH_STYLE"));
  EXPECT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }, 60 * kSecond));
  EXPECT_TRUE(node.manager().healthy());
}

TEST(SinkManager, StopBeforeTheBucketAnswersEndsAtOnce) {
  Cell cell;
  s3::S3Error down;
  cell.store.fail_next(s3::MemoryStore::Kind::list, 1000, down);
  Managed node(cell, quick_unit(), "node-1@a");
  cell.run_for(10 * kSecond);
  EXPECT_TRUE(node.drain(2 * kSecond));
  EXPECT_EQ(cell.broker.kv_calls, 0U);
}

TEST(SinkManager, StarPicksUpAQueueMadeLater) {
  Cell cell;
  UnitSettings unit = quick_unit();
  unit.queues.clear();
  unit.all_queues = true;
  Managed node(cell, unit, "node-1@a");
  cell.run_for(7 * kSecond);
  cell.broker.push(kQueue, "p", "1");
  EXPECT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }, 60 * kSecond));
}

TEST(SinkManager, GraceThatRunsOutEndsTheWaitAndLeavesTheIntent) {
  Cell cell;
  cell.broker.push(kQueue, "p", "1");
  {
    Managed node(cell, quick_unit(), "node-1@a");
    ASSERT_TRUE(cell.run_until([&] { return cell.committed_k() == 1; }));
    cell.broker.push(kQueue, "p", "2");
    cell.run_for(kSecond);
    cell.store.hang();
    ASSERT_TRUE(cell.run_until([&] { return cell.store.in_flight() > 0; }));
    EXPECT_FALSE(node.drain(29 * kSecond));
    EXPECT_TRUE(node.drain(2 * kSecond));
    EXPECT_EQ(parse_intent(cell.broker.live(intent_key("default", kQueue))->value)->bounds.k, 2U);
    EXPECT_EQ(cell.committed_k(), 1U);
    cell.store.release();
    cell.run_for(5 * kSecond);  // what the cut left behind ends before its owner goes
  }
  Managed next(cell, quick_unit(), "node-1@a");
  EXPECT_TRUE(cell.run_until([&] { return cell.committed_k() == 2; }));
}

TEST(SinkManager, ThreeNodesShareSixQueuesAndAStoppedNodesShareMoves) {
  Cell cell;
  UnitSettings unit = quick_unit();
  unit.queues = {"a", "b", "c", "d", "e", "f"};
  for (const std::string& queue : unit.queues) cell.broker.push(queue, "p", "1");
  Managed first(cell, unit, "node-1@a");
  cell.run_for(30 * kSecond);
  EXPECT_EQ(first.held(), 6) << "a lone node owns everything";
  Managed second(cell, unit, "node-2@bb");
  Managed third(cell, unit, "node-3@ccc");
  const auto spread = [&] { return first.held() == 2 && second.held() == 2 && third.held() == 2; };
  EXPECT_TRUE(cell.run_until(spread, 600 * kSecond));
  cell.run_for(180 * kSecond);
  EXPECT_TRUE(spread()) << "a steady state moves nothing";
  EXPECT_TRUE(third.drain(10 * kSecond));
  EXPECT_TRUE(cell.run_until([&] { return first.held() == 3 && second.held() == 3; }, 30 * kSecond));
}

}  // namespace
}  // namespace queen::sink::test
