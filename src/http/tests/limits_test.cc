// What is refused, and who is cut off.
#include <gmock/gmock.h>

#include <mutex>
#include <thread>

#include "http/tests/test_client.h"

namespace queen::http::test {
namespace {

using ::testing::HasSubstr;

using HttpLimits = ServerTest;

// Keeps lines for the test to look at.
class KeptLog final : public LogSink {
 public:
  bool enabled(LogLevel, std::string_view) const override { return true; }
  void write(LogLevel, std::string_view, std::string_view event, std::span<const LogField> fields) override {
    const std::lock_guard lock(mutex_);
    std::string line(event);
    for (const LogField& field : fields) line += " " + field.key + "=" + field.text;
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

// Everything far away but what the test is about.
ServerSettings patient() {
  ServerSettings settings;
  settings.header_timeout_us = settings.body_progress_timeout_us = 600'000'000;
  settings.write_timeout_us = settings.idle_timeout_us = 600'000'000;
  return settings;
}

TEST_F(HttpLimits, MalformedRequestIsAnsweredAndClosed) {
  start();
  Client client = this->client();
  ASSERT_TRUE(client.send("this is not http\r\n\r\n"));
  const Answer answer = client.receive();
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.head, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(answer.head, HasSubstr("text/plain"));
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(HttpLimits, SmuggledLengthsAreRefusedAndNothingBehindThemRuns) {
  start();
  Client client = this->client();
  ASSERT_TRUE(
      client.send("POST /echo HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
                  get("/drop")));
  EXPECT_EQ(client.receive().status, 400);
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(HttpLimits, LongHeadIs431) {
  ServerSettings settings;
  settings.header_bytes_max = 2048;
  start(settings);
  Client client = this->client();
  ASSERT_TRUE(client.send("GET / HTTP/1.1\r\nA: " + std::string(3000, 'a') + "\r\n\r\n"));
  EXPECT_EQ(client.receive().status, 431);
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(HttpLimits, ClaimedLargeBodyIs413BeforeItIsSent) {
  ServerSettings settings;
  settings.body_bytes_max = 1000;
  start(settings);
  Client client = this->client();
  ASSERT_TRUE(client.send("POST /echo HTTP/1.1\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n"));
  const Answer answer = client.receive();
  EXPECT_EQ(answer.status, 413);
  EXPECT_THAT(answer.head, HasSubstr("text/plain"));
  EXPECT_EQ(answer.body, "request body larger than 1000 bytes\n");
}

TEST_F(HttpLimits, ClientThatSendsItsWholeLargeBodyFirstSeesThe413) {
  ServerSettings settings;
  settings.body_bytes_max = 1000;
  start(settings);
  Client client = this->client();
  ASSERT_TRUE(client.send(post("/echo", std::string(8'000'000, 'x'))));
  EXPECT_EQ(client.receive().status, 413);
  client.finish_sending();
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(HttpLimits, ChunksBeyondTheLimitAre413) {
  ServerSettings settings;
  settings.body_bytes_max = 10;
  start(settings);
  Client client = this->client();
  ASSERT_TRUE(client.send("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n8\r\n"));
  EXPECT_EQ(client.receive().status, 413);
}

TEST_F(HttpLimits, HalfAHeadTimesOut) {
  ServerSettings settings = patient();
  settings.header_timeout_us = 100'000;
  start(settings);
  Client client = this->client();
  ASSERT_TRUE(client.send("GET / HTTP/1.1\r\nHo"));
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(HttpLimits, BodyWithoutProgressTimesOut) {
  ServerSettings settings = patient();
  settings.body_progress_timeout_us = 100'000;
  start(settings);
  Client client = this->client();
  ASSERT_TRUE(client.send("POST /echo HTTP/1.1\r\nContent-Length: 10\r\n\r\n12345"));
  EXPECT_TRUE(client.closed_by_peer());
  Client chunked = this->client();
  ASSERT_TRUE(chunked.send("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n123"));
  EXPECT_TRUE(chunked.closed_by_peer());
}

TEST_F(HttpLimits, IdleConnectionTimesOutBeforeAndAfterARequest) {
  ServerSettings settings = patient();
  settings.idle_timeout_us = 100'000;
  start(settings);
  Client fresh = client();
  EXPECT_TRUE(fresh.closed_by_peer());
  Client used = client();
  ASSERT_TRUE(used.send(post("/echo", "x")));
  EXPECT_EQ(used.receive().status, 200);
  EXPECT_TRUE(used.closed_by_peer());
}

TEST_F(HttpLimits, ParkedRequestHasNoTimeOut) {
  ServerSettings settings = patient();
  settings.header_timeout_us = settings.body_progress_timeout_us = 50'000;
  settings.write_timeout_us = settings.idle_timeout_us = 50'000;
  start(settings);
  Client parked_client = client();
  ASSERT_TRUE(parked_client.send(get("/park")));
  Responder parked = parked_.take();
  // A fresh connection runs into the idle time-out: so long has the parked one waited.
  EXPECT_TRUE(client().closed_by_peer());
  parked.send(text(200, "late"));
  EXPECT_EQ(parked_client.receive().body, "late");
}

TEST_F(HttpLimits, PeerThatNeverReadsIsCutOffAndNamed) {
  ServerSettings settings = patient();
  settings.write_timeout_us = 200'000;
  KeptLog log;
  start(settings, log);
  Client deaf(server_->port(), 4096);
  const std::string peer = "127.0.0.1:" + std::to_string(deaf.local_port());
  ASSERT_TRUE(deaf.send(get("/big/20000000")));
  Client other = client();
  while (server_->write_timeouts() == 0) {
    ASSERT_TRUE(other.send(post("/echo", "x")));
    ASSERT_EQ(other.receive().status, 200);
  }
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_THAT(log.lines()[0], HasSubstr("http_write_timeout peer=" + peer + " path=/big/20000000"));
  EXPECT_EQ(deaf.receive().status, 0);
  server_->stop();
}

TEST_F(HttpLimits, PeerThatReadsSlowlyButReadsIsKept) {
  ServerSettings settings = patient();
  settings.write_timeout_us = 400'000;
  start(settings);
  Client slow(server_->port(), 4096);
  ASSERT_TRUE(slow.send(get("/big/20000000")));
  EXPECT_EQ(slow.receive().body.size(), 20'000'000U);
  EXPECT_EQ(server_->write_timeouts(), 0U);
}

}  // namespace
}  // namespace queen::http::test
