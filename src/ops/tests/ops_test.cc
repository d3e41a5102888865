// Health, status and the answers of a node that starts.
#include "ops/ops.h"

#include <gtest/gtest.h>

namespace queen::ops {
namespace {

broker::Health ready() {
  broker::Health health;
  health.ready = true;
  health.term = 7;
  health.applied = 5120;
  health.commit = 5121;
  return health;
}

TEST(HealthAnswer, IsHealthyWhenReady) {
  const auto response = health_response(ready(), "0.1.0");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(
      response.body,
      R"({"status":"healthy","engine":"raft","version":"0.1.0","raft":{"role":"leader","leader":true,"term":7,"applied":5120,"commit":5121,"lag":0,"storageReady":true,"clusterVersion":4,"kinds":4,"apply":{"failure":null,"skipped":[]}},"clockLeadMs":0,"storage":{"damaged":[]},"warnings":[]})");
}

TEST(HealthAnswer, IsSettlingWhenNotReady) {
  auto health = ready();
  health.ready = false;
  EXPECT_EQ(health_response(health, "v").status, 503);
  EXPECT_NE(health_response(health, "v").body.find(R"("status":"settling")"), std::string::npos);
}

TEST(HealthAnswer, ShowsAStoppedNodeAsStopped) {
  auto health = ready();
  health.stopped_cause = "fsync failed";
  const auto response = health_response(health, "v");
  EXPECT_EQ(response.status, 503);
  EXPECT_NE(response.body.find(R"("role":"stopped","leader":false)"), std::string::npos);
}

// GC-9, SP-1: the cause is named, and the status says that no write goes there.
TEST(HealthAnswer, NamesTheCauseOfAStop) {
  auto health = ready();
  health.stopped_cause = "raft log write failed: No space left on device";
  EXPECT_NE(
      health_response(health, "v").body.find(R"("cause":"raft log write failed: No space left on device")"),
      std::string::npos);
}

// SP-2: the entry that could not be applied.
TEST(HealthAnswer, ShowsTheEntryThatStoppedApply) {
  auto health = ready();
  health.apply_failure = {12, 3, "00112233aabbccdd", "deterministic", "effect 1 of kind 7, of command 0: no"};
  EXPECT_NE(
      health_response(health, "v")
          .body.find(
              R"("failure":{"index":12,"term":3,"digest":"00112233aabbccdd","class":"deterministic","error":"effect 1 of kind 7, of command 0: no"})"),
      std::string::npos);
}

// HD-27
TEST(HealthAnswer, ShowsTheLeadOfLogTime) {
  auto health = ready();
  health.clock_lead_us = 1'500'000;
  EXPECT_NE(health_response(health, "v").body.find(R"("clockLeadMs":1500)"), std::string::npos);
}

TEST(HealthAnswer, CarriesWarningsWithStatus200) {
  auto health = ready();
  health.warnings = {{"disk", "84% \"used\""}, {"map", "full"}};
  const auto response = health_response(health, "v");
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.body.ends_with(
      R"("warnings":[{"code":"disk","text":"84% \"used\""},{"code":"map","text":"full"}]})"));
}

// CR-6: a single node stays up and keeps reporting the file.
TEST(HealthAnswer, NamesDamagedLogFilesWithStatus200) {
  auto health = ready();
  health.damaged = {{LogId{18446744073709551615U}, 3, "/d/q1/r00000003.qlog", 4096, "a \"bad\" record"}};
  const auto response = health_response(health, "v");
  EXPECT_EQ(response.status, 200);
  EXPECT_NE(
      response.body.find(
          R"("storage":{"damaged":[{"log":"18446744073709551615","file":"/d/q1/r00000003.qlog","position":4096,"what":"a \"bad\" record"}]})"),
      std::string::npos)
      << response.body;
}

TEST(StatusAnswer, HasTwoFieldsWithoutASink) {
  EXPECT_EQ(status_response("", {}).body, R"({"status":"ok","engine":"raft"})");
  EXPECT_EQ(status_response(R"({"mode":"in-process"})", {}).body,
            R"({"status":"ok","engine":"raft","s3":{"mode":"in-process"}})");
}

TEST(StatusAnswer, TellsWhatRetentionHoldsKeep) {  // HD-18
  EXPECT_EQ(
      status_response("", {{"t", "q", "lake", 30}}).body,
      R"({"status":"ok","engine":"raft","retentionHolds":[{"tenant":"t","queue":"q","sink":"lake","bytes":30}]})");
}

TEST(StartingAnswer, TellsProgressAndWhenToAskAgain) {
  const auto response = starting_response(0.429);
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.body, R"({"status":"starting","progress":0.42})");
  ASSERT_EQ(response.headers.size(), 1U);
  EXPECT_EQ(response.headers[0], (std::pair<std::string, std::string>{"Retry-After", "1"}));
  EXPECT_EQ(starting_response(-1).body, R"({"status":"starting","progress":0.00})");
  EXPECT_EQ(starting_response(0.0 / 0.0).body, R"({"status":"starting","progress":0.00})");
}

TEST(StartingRoutes, AnswerEveryPathAndMethod) {
  const auto routes = starting_routes([] { return 0.5; });
  std::vector<std::string> params;
  for (const std::string_view path : {"/health", "/api/v1/push", "/"})
    EXPECT_NE(routes->find(http::Method::post, path, params), nullptr) << path;
}

}  // namespace
}  // namespace queen::ops
