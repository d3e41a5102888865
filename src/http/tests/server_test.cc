// Requests and answers over real sockets.
#include <gmock/gmock.h>

#include <thread>

#include "http/tests/test_client.h"

namespace queen::http::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using HttpServer = ServerTest;

TEST_F(HttpServer, AnswersSeveralRequestsOnOneConnection) {
  start();
  Client client = this->client();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send(post("/echo", "n" + std::to_string(i))));
    const Answer answer = client.receive();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "n" + std::to_string(i));
    EXPECT_THAT(answer.head, HasSubstr("Content-Type: text/plain\r\n"));
    EXPECT_THAT(answer.head, Not(HasSubstr("Connection:")));
  }
}

TEST_F(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  start();
  Client client = this->client();
  std::string bytes;
  for (int i = 0; i < 500; ++i) bytes += post("/echo", "n" + std::to_string(i));
  ASSERT_TRUE(client.send(bytes));
  for (int i = 0; i < 500; ++i) ASSERT_EQ(client.receive().body, "n" + std::to_string(i));
}

TEST_F(HttpServer, RequestsSentWhileOneIsParkedAreKept) {
  start();
  Client client = this->client();
  const std::string large(40'000, 'z');
  ASSERT_TRUE(client.send(get("/park")));
  Responder parked = parked_.take();
  // In two parts with a read between, so that one read is pending while bytes of the next request wait.
  ASSERT_TRUE(client.send("POST /echo HTTP/1.1\r\nContent-"));
  std::this_thread::yield();
  ASSERT_TRUE(client.send("Length: 40000\r\n\r\n" + large + post("/echo", "last")));
  parked.send(text(200, "first"));
  EXPECT_EQ(client.receive().body, "first");
  EXPECT_TRUE(client.receive().body == large);
  EXPECT_EQ(client.receive().body, "last");
}

TEST_F(HttpServer, PendingReadSurvivesTakingEarlierBytes) {
  start();
  Client client = this->client();
  Client other = this->client();
  ASSERT_TRUE(client.send(get("/park")));
  Responder parked = parked_.take();
  ASSERT_TRUE(client.send("POST /echo HTTP/1.1\r\n"));
  // The other connection's answers give the first one's worker the time to read.
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(other.send(post("/echo", "x")));
    other.receive();
  }
  parked.send(text(200, "first"));
  EXPECT_EQ(client.receive().body, "first");
  ASSERT_TRUE(client.send("Content-Length: 3\r\n\r\nabc"));
  EXPECT_EQ(client.receive().body, "abc");
}

TEST_F(HttpServer, LargeBodyComesBackWhole) {
  start();
  Client client = this->client();
  std::string body(6'000'000, ' ');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i % 23);
  std::jthread sender([&] { client.send(post("/echo", body)); });
  const Answer answer = client.receive();
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body == body);
}

TEST_F(HttpServer, ChunkedBodyIsJoined) {
  start();
  Client client = this->client();
  ASSERT_TRUE(client.send("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"));
  ASSERT_TRUE(client.send("4\r\ndefg\r\n0\r\n\r\n" + post("/echo", "next")));
  EXPECT_EQ(client.receive().body, "abcdefg");
  EXPECT_EQ(client.receive().body, "next");
}

TEST_F(HttpServer, NoContentHasNeitherBodyNorHeadersAboutOne) {
  start();
  Client client = this->client();
  ASSERT_TRUE(client.send(get("/empty") + post("/echo", "next")));
  const Answer answer = client.receive();
  EXPECT_EQ(answer.status, 204);
  EXPECT_THAT(answer.head, Not(HasSubstr("Content-")));
  EXPECT_THAT(answer.head, Not(HasSubstr("Transfer-")));
  EXPECT_EQ(client.receive().body, "next");
}

TEST_F(HttpServer, RoutesDecodeSegmentsAndQuery) {
  start();
  Client client = this->client();
  ASSERT_TRUE(client.send("GET /show/a%2Fb/c+d%?q=x+y HTTP/1.1\r\nHost: q\r\nX-Queen-Tenant: acme\r\n\r\n"));
  EXPECT_EQ(client.receive().body, "a/b|c+d%|x y|acme");
}

TEST_F(HttpServer, HeadHasTheLengthButNoBody) {
  start();
  Client client = this->client();
  ASSERT_TRUE(client.send("HEAD /big/17 HTTP/1.1\r\n\r\n" + post("/echo", "next")));
  const Answer answer = client.receive(false);
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.head, HasSubstr("Content-Length: 17\r\n"));
  EXPECT_EQ(client.receive().body, "next");
}

TEST_F(HttpServer, ExpectContinueIsAnsweredBeforeTheBody) {
  start();
  Client client = this->client();
  ASSERT_TRUE(client.send("POST /echo HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_EQ(client.receive().status, 100);
  ASSERT_TRUE(client.send("ok"));
  EXPECT_EQ(client.receive().body, "ok");
}

TEST_F(HttpServer, Http10ClosesUnlessAskedToStay) {
  start();
  Client stays = client();
  ASSERT_TRUE(stays.send("GET /show/1/2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  EXPECT_THAT(stays.receive().head, HasSubstr("Connection: keep-alive\r\n"));
  ASSERT_TRUE(stays.send("GET /show/1/2 HTTP/1.0\r\n\r\n"));
  EXPECT_THAT(stays.receive().head, HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(stays.closed_by_peer());
}

TEST_F(HttpServer, UnknownPathIsNoSuchRoute) {
  start();
  Client client = this->client();
  ASSERT_TRUE(client.send(get("/api/\"x?y=1")));
  const Answer answer = client.receive();
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.body, R"({"code":"no_such_route","error":"not found","path":"/api/\"x"})");
}

TEST_F(HttpServer, HeaderValuesCannotStartHeadersOfTheirOwn) {
  start();
  auto table = std::make_shared<Routes>();
  table->add(Method::get, "/h", [](Request, Responder responder) {
    Response response = text(200, "");
    response.headers.emplace_back("Retry-After", "1\r\nEvil: 2");
    responder.send(std::move(response));
  });
  server_->set_routes(table);
  Client client = this->client();
  ASSERT_TRUE(client.send(get("/h")));
  EXPECT_THAT(client.receive().head, HasSubstr("Retry-After: 1  Evil: 2\r\n"));
}

TEST_F(HttpServer, AnswersFromAnotherThreadReachTheirConnections) {
  start();
  std::vector<Client> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(client());
  for (int round = 0; round < 5; ++round) {
    for (Client& each : clients) ASSERT_TRUE(each.send(get("/park")));
    std::jthread answering([this] {
      for (int i = 0; i < 20; ++i) parked_.take().send(text(200, "late"));
    });
    for (Client& each : clients) ASSERT_EQ(each.receive().body, "late");
  }
}

TEST_F(HttpServer, DroppedResponderAnswersInternal) {
  start();
  Client client = this->client();
  ASSERT_TRUE(client.send(get("/drop")));
  const Answer answer = client.receive();
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, HasSubstr(R"("code":"internal"})"));
  ASSERT_TRUE(client.send(get("/park")));
  {
    const Responder dropped = parked_.take();
  }
  EXPECT_EQ(client.receive().status, 500);
}

TEST_F(HttpServer, NewRoutesReachOpenConnections) {
  start();
  Client client = this->client();
  ASSERT_TRUE(client.send(post("/echo", "x")));
  EXPECT_EQ(client.receive().status, 200);
  ASSERT_TRUE(client.send(get("/park")));
  Responder parked = parked_.take();
  server_->set_routes(std::make_shared<Routes>());
  parked.send(text(200, "of the old table"));
  EXPECT_EQ(client.receive().body, "of the old table");
  ASSERT_TRUE(client.send(post("/echo", "x")));
  EXPECT_EQ(client.receive().status, 404);
}

TEST_F(HttpServer, DisconnectOfParkedRequestIsTold) {
  start();
  Latch told;
  Client client = this->client();
  ASSERT_TRUE(client.send(get("/park")));
  Responder parked = parked_.take();
  parked.on_disconnect([&] { told.set(); });
  EXPECT_FALSE(parked.client_gone());
  client.close();
  EXPECT_TRUE(told.wait());
  EXPECT_TRUE(parked.client_gone());
  parked.send(text(200, "nobody hears"));
}

TEST_F(HttpServer, DisconnectIsToldWhenAskedForAfterwardsToo) {
  start();
  Client client = this->client();
  ASSERT_TRUE(client.send(get("/park")));
  Responder parked = parked_.take();
  client.close();
  while (!parked.client_gone()) std::this_thread::yield();
  Latch told;
  parked.on_disconnect([&] { told.set(); });
  EXPECT_TRUE(told.wait());
}

TEST_F(HttpServer, ClientThatOnlyFinishedSendingIsAnswered) {
  start();
  Client client = this->client();
  ASSERT_TRUE(client.send(get("/park")));
  client.finish_sending();
  Responder parked = parked_.take();
  while (!parked.client_gone()) std::this_thread::yield();
  parked.send(text(200, "still here"));
  EXPECT_EQ(client.receive().body, "still here");
  EXPECT_TRUE(client.closed_by_peer());
}

}  // namespace
}  // namespace queen::http::test
