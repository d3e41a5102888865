// Start, drain, stop, and many connections.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <fstream>
#include <thread>

#include "http/tests/test_client.h"

namespace queen::http::test {
namespace {

using ::testing::HasSubstr;

using HttpLife = ServerTest;

constexpr std::int64_t kLongGraceUs = 600'000'000;

// A sanitizer's shadow memory multiplies what a connection costs.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kBytesPerIdleConnection = 64U << 10;
#else
constexpr std::size_t kBytesPerIdleConnection = 4U << 10;
#endif

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t pages = 0;
  std::size_t resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(HttpLife, PortInUseIsNamed) {
  start();
  ServerSettings settings;
  settings.bind_address = "127.0.0.1";
  settings.port = server_->port();
  const auto second = Server::listen(settings, clock_, Logger(null_log(), "http"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::unavailable);
  EXPECT_EQ(second.error().what, "cannot listen on 127.0.0.1 port " + std::to_string(server_->port()) +
                                     ": address already in use");
}

TEST_F(HttpLife, UnknownAddressIsNamed) {
  ServerSettings settings;
  settings.bind_address = "192.0.2.1";
  const auto listening = Server::listen(settings, clock_, Logger(null_log(), "http"));
  ASSERT_FALSE(listening);
  EXPECT_THAT(listening.error().what, HasSubstr("192.0.2.1"));
}

TEST_F(HttpLife, BindsIpv6AndHostNames) {
  for (const char* address : {"::1", "localhost"}) {
    ServerSettings settings;
    settings.bind_address = address;
    settings.port = 0;
    const auto listening = Server::listen(settings, clock_, Logger(null_log(), "http"));
    ASSERT_TRUE(listening) << listening.error().what;
    EXPECT_NE((*listening)->port(), 0);
  }
}

TEST_F(HttpLife, AnswersStartingBeforeTheFirstRoutes) {
  ServerSettings settings;
  settings.bind_address = "127.0.0.1";
  settings.port = 0;
  auto listening = Server::listen(settings, clock_, Logger(null_log(), "http"));
  ASSERT_TRUE(listening);
  Client client((*listening)->port());
  ASSERT_TRUE(client.send(get("/health")));
  EXPECT_EQ(client.receive().status, 503);
}

TEST_F(HttpLife, DrainSendsOwedAnswersAndClosesTheRest) {
  start();
  Client idle = client();
  Client busy = client();
  ASSERT_TRUE(busy.send(get("/park")));
  Responder parked = parked_.take();
  while (server_->connections() < 2) std::this_thread::yield();
  Latch drained;
  server_->drain(kLongGraceUs, [&] { drained.set(); });
  EXPECT_TRUE(idle.closed_by_peer());
  EXPECT_FALSE(Client(server_->port()).connected());
  parked.send(text(200, "owed"));
  const Answer answer = busy.receive();
  EXPECT_EQ(answer.body, "owed");
  EXPECT_THAT(answer.head, HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(busy.closed_by_peer());
  EXPECT_TRUE(drained.wait());
  EXPECT_EQ(server_->connections(), 0U);
}

TEST_F(HttpLife, DrainEndsAtItsGrace) {
  ServerSettings settings;
  settings.idle_timeout_us = 400'000;
  start(settings);
  Client busy = client();
  ASSERT_TRUE(busy.send(get("/park")));
  const Responder parked = parked_.take();
  Latch drained;
  server_->drain(10'000, [&] { drained.set(); });
  EXPECT_TRUE(drained.wait());
  EXPECT_EQ(server_->connections(), 1U);
}

TEST_F(HttpLife, DrainOfAnUnusedServerIsTold) {
  start();
  Latch drained;
  server_->drain(kLongGraceUs, [&] { drained.set(); });
  EXPECT_TRUE(drained.wait());
}

TEST_F(HttpLife, RespondersMayOutliveTheServer) {
  start();
  Latch told;
  Client client = this->client();
  ASSERT_TRUE(client.send(get("/park")));
  Responder first = parked_.take();
  first.on_disconnect([&] { told.set(); });
  Client second_client = this->client();
  ASSERT_TRUE(second_client.send(get("/park")));
  Responder second = parked_.take();
  server_.reset();
  EXPECT_TRUE(told.wait());
  EXPECT_TRUE(second.client_gone());
  first.send(text(200, "too late"));
  second.on_disconnect([] {});
  EXPECT_TRUE(client.closed_by_peer());
}

TEST_F(HttpLife, StopWhileAnswersComeFromAnotherThread) {
  for (int round = 0; round < 20; ++round) {
    start();
    std::vector<Client> clients;
    for (int i = 0; i < 8; ++i) clients.push_back(client());
    for (Client& each : clients) ASSERT_TRUE(each.send(get("/park")));
    std::vector<Responder> held;
    for (int i = 0; i < 8; ++i) held.push_back(parked_.take());
    std::jthread answering([&held] {
      for (Responder& each : held) each.send(text(200, "late"));
    });
    server_->stop();
    EXPECT_EQ(server_->connections(), 0U);
  }
}

TEST_F(HttpLife, ManyIdleConnectionsCostLittleAndStayUsable) {
  constexpr std::size_t kConnections = 2000;
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 3 * kConnections);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  ASSERT_GT(files.rlim_cur, 2 * kConnections + 100);
  start();
  const std::size_t before = resident_bytes();
  std::vector<Client> clients;
  clients.reserve(kConnections);
  for (std::size_t i = 0; i < kConnections; ++i) clients.push_back(client());
  while (server_->connections() < kConnections) std::this_thread::yield();
  EXPECT_LT(resident_bytes() - before, kConnections * kBytesPerIdleConnection);
  for (Client& each : clients) ASSERT_TRUE(each.send(post("/echo", "x")));
  for (Client& each : clients) ASSERT_EQ(each.receive().status, 200);
}

// The limit is the whole process's, so the test takes all descriptors and gives one back.
TEST_F(HttpLife, ShortageOfDescriptorsIsWaitedOut) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP()
      << "UBSan's vptr check opens a pipe to look at an address, and this test leaves it no descriptor";
#endif
  start();
  Client first = client();
  ASSERT_TRUE(first.send(post("/echo", "x")));
  ASSERT_EQ(first.receive().status, 200);
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlim_t before = files.rlim_cur;
  const int last = ::dup(0);
  ASSERT_GE(last, 0);
  ::close(last);
  files.rlim_cur = static_cast<rlim_t>(last) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  // This takes the last descriptor; the kernel completes the connection without the server.
  Client second = client();
  EXPECT_TRUE(second.connected());
  EXPECT_TRUE(second.send(post("/echo", "y")));
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(first.send(post("/echo", "x")));
    EXPECT_EQ(first.receive().status, 200);
  }
  EXPECT_EQ(server_->connections(), 1U);
  files.rlim_cur = before;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_EQ(second.receive().body, "y");
}

}  // namespace
}  // namespace queen::http::test
