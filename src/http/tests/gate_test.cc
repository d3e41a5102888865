// Bodies that wait for room: nothing of them is read before (api-messaging.md 3.3).
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "http/tests/test_client.h"

namespace queen::http::test {
namespace {

using ::testing::HasSubstr;

using Decided = UniqueFunction<void(Admittance)>;

class HttpGate : public ServerTest {
 protected:
  // POST /gated answers how large its body was and whether its pass came with it.
  void start_gated() {
    start();
    auto table = std::make_shared<Routes>();
    table->add(
        Method::post, "/gated",
        [](const Request& request, Responder responder) {
          const bool passed = request.pass != nullptr;
          responder.send(text(200, std::to_string(request.body.size()) + (passed ? " passed" : "")));
        },
        [this](std::uint64_t bytes, Decided decided) {
          asked_bytes_ = bytes;
          if (at_once_) return decided({pass_, std::nullopt});
          const std::lock_guard lock(mutex_);
          decided_ = std::move(decided);
          asked_.set();
        });
    server_->set_routes(table);
  }
  Decided decided() {
    EXPECT_TRUE(asked_.wait());
    const std::lock_guard lock(mutex_);
    return std::move(decided_);
  }

  std::shared_ptr<int> pass_ = std::make_shared<int>(7);
  std::atomic<std::uint64_t> asked_bytes_ = 0;
  std::atomic<bool> at_once_ = false;
  Latch asked_;
  std::mutex mutex_;  // guards decided_
  Decided decided_;
};

TEST_F(HttpGate, NothingOfABodyIsReadUntilItOpens) {
  start_gated();
  Client client = this->client();
  constexpr std::size_t kBytes = 32U << 20;  // more than the sockets' buffers take
  std::atomic<bool> sent = false;
  std::thread sender([&] {
    client.send(post("/gated", std::string(kBytes, 'x')));
    sent = true;
  });
  Decided open = decided();
  EXPECT_EQ(asked_bytes_, kBytes);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(sent);
  open({pass_, std::nullopt});
  EXPECT_EQ(client.receive().body, std::to_string(kBytes) + " passed");
  sender.join();
}

TEST_F(HttpGate, ARefusalIsTheAnswerAndEndsTheConnection) {
  start_gated();
  Client client = this->client();
  std::thread sender([&] { client.send(post("/gated", std::string(8U << 20, 'x'))); });
  decided()({nullptr, text(429, "full")});
  const Answer answer = client.receive();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.body, "full");
  EXPECT_THAT(answer.head, HasSubstr("Connection: close\r\n"));
  client.finish_sending();
  sender.join();
}

TEST_F(HttpGate, AskedOnceAndAnsweredAtOnceGoesOnAtOnce) {
  start_gated();
  at_once_ = true;
  Client client = this->client();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send(post("/gated", std::string(100'000, 'x'))));
    EXPECT_EQ(client.receive().body, "100000 passed");
  }
  for (int i = 0; i < 1'000 && pass_.use_count() > 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(pass_.use_count(), 1);
}

// A client that waits for `100 Continue` gets it when there is room, not before.
TEST_F(HttpGate, ContinueIsSaidWhenItOpens) {
  start_gated();
  Client client = this->client();
  ASSERT_TRUE(
      client.send("POST /gated HTTP/1.1\r\nHost: q\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"));
  decided()({pass_, std::nullopt});
  EXPECT_EQ(client.receive().status, 100);
  ASSERT_TRUE(client.send("hello"));
  EXPECT_EQ(client.receive().body, "5 passed");
}

TEST_F(HttpGate, ABodyThatCameWithItsHeadIsNotAsked) {
  start_gated();
  Client client = this->client();
  ASSERT_TRUE(client.send(post("/gated", "small")));
  EXPECT_EQ(client.receive().body, "5");
}

TEST_F(HttpGate, WhoeverIsGoneWhenItOpensGivesThePassBack) {
  start_gated();
  Decided open;
  {
    Client client = this->client();
    ASSERT_TRUE(client.send("POST /gated HTTP/1.1\r\nHost: q\r\nContent-Length: 100\r\n\r\n"));
    open = decided();
  }
  open({pass_, std::nullopt});
  open = nullptr;
  for (int i = 0; i < 1'000 && pass_.use_count() > 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(pass_.use_count(), 1);
}

TEST_F(HttpGate, MayOpenAfterTheServerIsGone) {
  start_gated();
  Client client = this->client();
  ASSERT_TRUE(client.send("POST /gated HTTP/1.1\r\nHost: q\r\nContent-Length: 100\r\n\r\n"));
  Decided late = decided();
  server_->stop();
  server_.reset();
  late({pass_, std::nullopt});
  late = nullptr;
  EXPECT_EQ(pass_.use_count(), 1);
}

}  // namespace
}  // namespace queen::http::test
