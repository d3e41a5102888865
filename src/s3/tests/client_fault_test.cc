// Retries, time limits, broken peers, cancelling (s3-sink.md 17.4, 17.5; HD-3 to HD-8, HD-13).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "client_test_support.h"

namespace queen::s3 {
namespace {

using testing::HasSubstr;
using testing::Not;
using Then = ServerReply::Then;

// Answers the listed statuses in turn, then success.
RecordingServer::Handler statuses(std::vector<int> list) {
  return [list = std::move(list), next = std::size_t{0}](const SeenRequest& seen) mutable {
    return next < list.size() ? ServerReply{list[next++], {}, ""} : etag_reply(seen);
  };
}

std::int64_t elapsed_ms(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - since)
      .count();
}

TEST(ClientFaults, ServerErrorsAreTriedAgain) {
  RecordingServer server(statuses({503, 500}));
  EXPECT_TRUE(TestClient(test_settings(server)).put("k", "x").ok());
  EXPECT_EQ(server.seen().size(), 3U);
}

TEST(ClientFaults, EachAttemptIsSignedAnew) {
  RecordingServer server(statuses({503}));
  ClientSettings settings = test_settings(server);
  settings.retry_unit_us = 1'100'000;
  EXPECT_TRUE(TestClient(settings).put("k", "x").ok());
  EXPECT_NE(server.seen().at(0).header("x-amz-date"), server.seen().at(1).header("x-amz-date"));
  EXPECT_NE(server.seen().at(0).header("authorization"), server.seen().at(1).header("authorization"));
}

TEST(ClientFaults, ForbiddenIsNotTriedAgain) {
  RecordingServer server([](const SeenRequest&) { return ServerReply{403, {}, error_xml("AccessDenied")}; });
  const auto done = TestClient(test_settings(server)).put("k", "x");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error->failure, Failure::status);
  EXPECT_FALSE(done.error->retriable);
  EXPECT_EQ(done.error->status, 403);
  EXPECT_EQ(done.error->s3_code, "AccessDenied");
  EXPECT_EQ(server.seen().size(), 1U);
}

TEST(ClientFaults, TheCodeDecidesBeforeTheStatus) {
  RecordingServer server([first = true](const SeenRequest& seen) mutable {
    if (!std::exchange(first, false)) return etag_reply(seen);
    return ServerReply{400, {}, error_xml("RequestTimeout")};
  });
  EXPECT_TRUE(TestClient(test_settings(server)).put("k", "x").ok());
  EXPECT_EQ(server.seen().size(), 2U);
}

TEST(ClientFaults, AttemptsAreBounded) {
  RecordingServer server([](const SeenRequest&) { return ServerReply{503, {{"Retry-After", "0"}}, ""}; });
  const auto done = TestClient(test_settings(server)).put("k", "x");
  ASSERT_FALSE(done.ok());
  EXPECT_TRUE(done.error->retriable);
  EXPECT_EQ(done.error->retry_after_us, 0);
  EXPECT_EQ(server.seen().size(), 6U);
}

TEST(ClientFaults, RetryAfterIsAFloor) {
  RecordingServer server([first = true](const SeenRequest& seen) mutable {
    if (!std::exchange(first, false)) return etag_reply(seen);
    return ServerReply{503, {{"Retry-After", "1"}}, ""};
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(TestClient(test_settings(server)).put("k", "x").ok());
  EXPECT_GE(elapsed_ms(start), 1'000);
}

TEST(ClientFaults, RedirectsAreNotFollowed) {
  RecordingServer server([](const SeenRequest& seen) {
    return ServerReply{
        307, {{"Location", "http://" + seen.header("host") + "/other"}, {"x-amz-bucket-region", "eu-9"}}, ""};
  });
  const auto done = TestClient(test_settings(server)).get("k");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error->status, 307);
  EXPECT_THAT(done.error->sentence, HasSubstr("QUEEN_S3_REGION"));
  EXPECT_THAT(done.error->sentence, HasSubstr("eu-9"));
  EXPECT_EQ(server.seen().size(), 1U);
}

TEST(ClientFaults, AWrongMd5EtagIsAnIntegrityFailureAfterAFewAttempts) {
  RecordingServer server([](const SeenRequest&) {
    return ServerReply{200, {{"ETag", "\"0123456789ABCDEF0123456789abcdef\""}}, ""};
  });
  const auto done = TestClient(test_settings(server)).put("k", "x");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error->failure, Failure::integrity);
  EXPECT_FALSE(done.error->retriable);
  EXPECT_EQ(server.seen().size(), 3U);
}

TEST(ClientFaults, AnUpperCaseMd5EtagMatches) {
  RecordingServer server([](const SeenRequest&) {
    return ServerReply{200, {{"ETag", "\"9DD4E461268C8034F5C8564E155C67A6\""}}, ""};
  });
  EXPECT_TRUE(TestClient(test_settings(server)).put("k", "x").ok());
}

TEST(ClientFaults, EtagsThatAreNoMd5AreNotCompared) {
  const std::vector<std::vector<NamedValue>> answers = {
      {{"ETag", "\"opaque\""}},
      {},
      {{"ETag", "\"0123456789abcdef0123456789abcdef\""}, {"x-amz-server-side-encryption", "aws:kms"}},
      {{"ETag", "\"0123456789abcdef0123456789abcdef\""},
       {"x-amz-server-side-encryption-customer-algorithm", "AES256"}}};
  for (const auto& headers : answers) {
    RecordingServer server([&](const SeenRequest&) { return ServerReply{200, headers, ""}; });
    EXPECT_TRUE(TestClient(test_settings(server)).put("k", "x").ok());
  }
}

TEST(ClientFaults, ADroppedConnectionIsTransportAndTriedAgain) {
  RecordingServer server([count = 0](const SeenRequest& seen) mutable {
    if (++count <= 2) return ServerReply{0, {}, "", Then::drop};
    return etag_reply(seen);
  });
  EXPECT_TRUE(TestClient(test_settings(server)).put("k", "x").ok());
}

TEST(ClientFaults, NobodyListeningIsTransport) {
  RecordingServer server(etag_reply);
  ClientSettings settings = test_settings(server);
  settings.endpoint = "http://127.0.0.1:1";
  const auto done = TestClient(settings).put("k", "x");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error->failure, Failure::transport);
  EXPECT_TRUE(done.error->retriable);
  EXPECT_EQ(done.error->status, 0);
  EXPECT_THAT(done.error->sentence, HasSubstr("QUEEN_S3_ENDPOINT"));
}

TEST(ClientFaults, ASuccessCutShortIsNoSuccess) {
  RecordingServer server(
      [](const SeenRequest&) { return ServerReply{200, {{"Content-Length", "10"}}, "12345", Then::close}; });
  const auto done = TestClient(test_settings(server)).get("k");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error->failure, Failure::transport);
}

TEST(ClientFaults, AnObjectAboveItsLimitIsABodyFailure) {
  RecordingServer server([](const SeenRequest&) { return ServerReply{200, {}, std::string(101, 'x')}; });
  TestClient client(test_settings(server));
  const auto done = client.get("k", 100);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error->failure, Failure::body);
  EXPECT_EQ(server.seen().size(), 1U);
  EXPECT_EQ(client.get("k", 101).value.value()->size(), 101U);
}

TEST(ClientFaults, AListingThatIsNoneIsABodyFailure) {
  RecordingServer server([](const SeenRequest&) { return ServerReply{200, {}, "<html>hello"}; });
  const auto done = TestClient(test_settings(server)).list("");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error->failure, Failure::body);
  EXPECT_TRUE(done.error->retriable);
}

TEST(ClientFaults, AMissingBucketIsNoMissingKey) {
  RecordingServer server([](const SeenRequest&) { return ServerReply{404, {}, error_xml("NoSuchBucket")}; });
  const auto done = TestClient(test_settings(server)).get("k");
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error->sentence, HasSubstr("QUEEN_S3_BUCKET=bkt"));
}

// The server answers on the head alone and closes with most of the body unread: our writes break, its answer
// counts.
TEST(ClientFaults, AnEarlyRefusalIsReportedNotABrokenPipe) {
  for (const Then then : {Then::keep, Then::close}) {
    RecordingServer server(etag_reply, [then](const SeenRequest&) {
      return std::optional(ServerReply{403, {}, error_xml("AccessDenied"), then});
    });
    for (int i = 0; i < 5; ++i) {
      const auto done = TestClient(test_settings(server)).put("k", Bytes(24 << 20, 'x'));
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error->status, 403) << done.error->sentence;
      EXPECT_EQ(done.error->s3_code, "AccessDenied");
    }
  }
}

TEST(ClientFaults, APeerThatNeverReadsIsDropped) {
  RecordingServer server(etag_reply);
  server.stop_reading();
  ClientSettings settings = test_settings(server);
  settings.progress_timeout_us = 50'000;
  const auto done = TestClient(settings).put("k", Bytes(32 << 20, 'x'));
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error->failure, Failure::transport);
  EXPECT_THAT(done.error->sentence, HasSubstr("no byte passed"));
}

TEST(ClientFaults, AnAnswerThatNeverComesEndsEachAttemptAtTheProgressLimit) {
  RecordingServer server([](const SeenRequest&) { return ServerReply{200, {}, "x", Then::hang}; });
  ClientSettings settings = test_settings(server);
  settings.progress_timeout_us = 50'000;
  const auto done = TestClient(settings).get("k");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(server.seen().size(), 6U);
  EXPECT_EQ(done.error->failure, Failure::transport);
}

// Ten bytes, each well inside the limit, together above it.
TEST(ClientFaults, ASlowAnswerMayTakeLongerThanTheProgressLimit) {
  RecordingServer server([](const SeenRequest&) {
    ServerReply reply{200, {}, "0123456789"};
    reply.pause_ms = 60;
    return reply;
  });
  ClientSettings settings = test_settings(server);
  settings.progress_timeout_us = 400'000;
  EXPECT_EQ(TestClient(settings).get("k").value.value(), "0123456789");
  EXPECT_EQ(server.seen().size(), 1U);
}

TEST(ClientFaults, RequestsInFlightAreCapped) {
  RecordingServer server([](const SeenRequest&) { return ServerReply{200, {}, "", Then::hang}; });
  ClientSettings settings = test_settings(server);
  settings.requests_in_flight_max = 3;
  TestClient client(settings);
  std::vector<std::future<Outcome<std::optional<std::uint64_t>>>> all;
  for (int i = 0; i < 8; ++i)
    all.push_back(TestClient::future_of<std::optional<std::uint64_t>>(
        [&](auto done) { client.store->head("k", std::move(done)); }));
  while (server.hanging() < 3) std::this_thread::yield();
  EXPECT_EQ(all.back().wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  EXPECT_EQ(server.seen().size(), 3U);
  client.store->cancel();
  for (auto& one : all) EXPECT_EQ(one.get().error->failure, Failure::cancelled);
  EXPECT_EQ(server.seen().size(), 3U);
}

TEST(ClientFaults, CancelEndsWhatRunsAndRefusesWhatComesUntilResume) {
  RecordingServer server([first = true](const SeenRequest& seen) mutable {
    return std::exchange(first, false) ? ServerReply{200, {}, "", Then::hang} : etag_reply(seen);
  });
  TestClient client(test_settings(server));
  auto running = TestClient::future_of<std::optional<std::uint64_t>>(
      [&](auto done) { client.store->head("k", std::move(done)); });
  while (server.hanging() < 1) std::this_thread::yield();
  client.store->cancel();
  client.store->cancel();
  const auto ended = running.get();
  EXPECT_EQ(ended.error->failure, Failure::cancelled);
  EXPECT_EQ(client.put("k", "x").error->failure, Failure::cancelled);
  EXPECT_EQ(server.seen().size(), 1U);
  client.store->resume();
  EXPECT_TRUE(client.put("k", "x").ok());
}

// HD-13: one owner among several of a store loses its lease.
TEST(ClientFaults, CancelOfKeysEndsTheirRequestsAndNoOthers) {
  RecordingServer server([](const SeenRequest&) { return ServerReply{200, {}, "", Then::hang}; });
  TestClient client(test_settings(server));
  const auto head = [&](const char* key) {
    return TestClient::future_of<std::optional<std::uint64_t>>(
        [&](auto done) { client.store->head(key, std::move(done)); });
  };
  auto mine = head("q=a/1");
  auto mine_too = head("side/q=a/2");
  auto other = head("q=ab/1");
  while (server.hanging() < 3) std::this_thread::yield();
  client.store->cancel_keys({"q=a/", "side/q=a/"});
  EXPECT_EQ(mine.get().error->failure, Failure::cancelled);
  EXPECT_EQ(mine_too.get().error->failure, Failure::cancelled);
  EXPECT_EQ(other.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  server.release_hanging();
  EXPECT_TRUE(other.get().ok());
  EXPECT_EQ(server.seen().size(), 3U) << "nothing was sent for a cancelled one";
}

// HD-6: the places of a node are shared by its clients, and a place that comes free wakes the one that waits.
TEST(ClientFaults, ClientsOfOneNodeShareItsPlaces) {
  RecordingServer server([](const SeenRequest& seen) {
    return ServerReply{200, {}, "", seen.target.ends_with("hang") ? Then::hang : Then::keep};
  });
  ClientSettings settings = test_settings(server);
  settings.node_cap = std::make_shared<RequestCap>(2);
  TestClient first(settings), second(settings);
  auto one = TestClient::future_of<std::optional<std::uint64_t>>(
      [&](auto done) { first.store->head("1-hang", std::move(done)); });
  auto two = TestClient::future_of<std::optional<std::uint64_t>>(
      [&](auto done) { first.store->head("2-hang", std::move(done)); });
  while (server.hanging() < 2) std::this_thread::yield();
  auto waits = TestClient::future_of<std::optional<std::uint64_t>>(
      [&](auto done) { second.store->head("3", std::move(done)); });
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  EXPECT_EQ(server.seen().size(), 2U);
  first.store->cancel();
  EXPECT_TRUE(waits.get().ok());
  EXPECT_EQ(one.get().error->failure, Failure::cancelled);
  EXPECT_EQ(two.get().error->failure, Failure::cancelled);
}

TEST(ClientFaults, AClientThatGoesGivesItsPlacesBack) {
  RecordingServer server([](const SeenRequest& seen) {
    return ServerReply{200, {}, "", seen.target.ends_with("hang") ? Then::hang : Then::keep};
  });
  ClientSettings settings = test_settings(server);
  settings.node_cap = std::make_shared<RequestCap>(1);
  auto gone = std::make_unique<TestClient>(settings);
  auto one = TestClient::future_of<std::optional<std::uint64_t>>(
      [&](auto done) { gone->store->head("hang", std::move(done)); });
  while (server.hanging() < 1) std::this_thread::yield();
  TestClient next(settings);
  gone.reset();
  EXPECT_TRUE(next.head("k").ok());
}

TEST(ClientFaults, CancelEndsAWaitBetweenAttempts) {
  RecordingServer server([](const SeenRequest&) { return ServerReply{503, {{"Retry-After", "60"}}, ""}; });
  TestClient client(test_settings(server));
  auto waiting = TestClient::future_of<std::optional<std::uint64_t>>(
      [&](auto done) { client.store->head("k", std::move(done)); });
  while (server.seen().empty()) std::this_thread::yield();
  client.store->cancel();
  EXPECT_EQ(waiting.get().error->failure, Failure::cancelled);
}

TEST(ClientFaults, DestroyingTheClientEndsItsRequestsAsCancelled) {
  RecordingServer server([](const SeenRequest&) { return ServerReply{200, {}, "", Then::hang}; });
  auto client = std::make_unique<TestClient>(test_settings(server));
  auto running = TestClient::future_of<std::optional<std::uint64_t>>(
      [&](auto done) { client->store->head("k", std::move(done)); });
  while (server.hanging() < 1) std::this_thread::yield();
  client.reset();
  EXPECT_EQ(running.get().error->failure, Failure::cancelled);
}

TEST(ClientFaults, NoSentenceHoldsTheSecret) {
  RecordingServer server([](const SeenRequest&) {
    return ServerReply{403, {}, error_xml("SignatureDoesNotMatch", "<StringToSign>hush-hush</StringToSign>")};
  });
  const auto done = TestClient(test_settings(server)).put("k", "x");
  EXPECT_THAT(done.error->sentence, Not(HasSubstr("hush-hush")));
  EXPECT_THAT(done.error->sentence, HasSubstr("QUEEN_S3_SECRET_KEY"));
}

}  // namespace
}  // namespace queen::s3
