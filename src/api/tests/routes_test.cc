// What every route goes through: the tenant, the error table, unknown paths; and the table itself over a real
// server.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "api/detail/names.h"
#include "api/detail/push.h"
#include "api/tests/fake_broker.h"

namespace queen::api {
namespace {

constexpr std::string_view kTenant = "01b7c0de-0001-7aaa-8bbb-00000000000a";

std::shared_ptr<Sent> push_as(Rig& rig, std::string header) {
  http::Request request;
  request.body = R"({"items":[{"queue":"q","payload":1}]})";
  request.tenant_header = std::move(header);
  return rig.call(handle_push, std::move(request));
}

TEST(Tenancy, IgnoresTheHeaderWhenOff) {
  Rig rig;
  push_as(rig, "nonsense");
  EXPECT_EQ(rig.broker.commands.at(0).tenant, kDefaultTenant);
}

TEST(Tenancy, ReadsTheHeaderWhenOn) {
  Rig rig;
  rig.context->settings.tenancy_header = true;
  push_as(rig, "01B7C0DE-0001-7AAA-8BBB-00000000000A");
  push_as(rig, "");
  EXPECT_EQ(rig.broker.commands.at(0).tenant, kTenant);
  EXPECT_EQ(rig.broker.commands.at(1).tenant, kDefaultTenant);
  EXPECT_EQ(answer_of(push_as(rig, "abc")),
            R"x(400 {"error":"invalid x-queen-tenant header (must be a UUID)"})x");
  EXPECT_EQ(answer_of(push_as(rig, "00000000-0000-0000-0000-00000000FFFE")),
            R"(403 {"error":"this tenant is reserved: no route acts on it","code":"reserved_tenant"})");
  EXPECT_EQ(rig.broker.commands.size(), 2U);
}

TEST(Errors, HaveTheStatusAndHeaderOfTheirRow) {
  const std::vector<std::tuple<std::string, int, std::string>> rows = {
      {"bad_body", 400, ""},       {"bad_request", 400, ""},
      {"something_else", 400, ""}, {"reserved_tenant", 403, ""},
      {"no_such_route", 404, ""},  {"name_too_long", 413, ""},
      {"overloaded", 429, "2"},    {"internal", 500, ""},
      {"retry", 503, "1"},         {"no_leader", 503, "1"},
      {"timeout", 503, "1"},       {"outcome_unknown", 503, "1"},
      {"standby", 503, "1"},       {"raft_phase1_unsupported", 503, "1"},
      {"storage_full", 507, ""}};
  for (const auto& [code, status, retry_after] : rows) {
    const auto response = error_response(code, "te\"xt");
    EXPECT_EQ(response.status, status) << code;
    EXPECT_EQ(header_of(response, "Retry-After"), retry_after) << code;
    EXPECT_EQ(response.body, R"({"error":"te\"xt","code":")" + code + R"("})");
  }
}

TEST(Errors, ListEveryCodeOnce) {
  std::vector<std::string_view> codes;
  for (const ErrorRow& row : error_table()) codes.push_back(row.code);
  std::sort(codes.begin(), codes.end());
  EXPECT_EQ(std::adjacent_find(codes.begin(), codes.end()), codes.end());
}

TEST(NoSuchRoute, NamesThePathAsSent) {
  const auto response = no_such_route("/api/v1/\"x\xFF");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.body,
            "{\"code\":\"no_such_route\",\"error\":\"not found\",\"path\":\"/api/v1/\\\"x\xEF\xBF\xBD\"}");
}

TEST(DeadlinesTest, RunWhatIsDueAndForgetWhatIsCancelled) {
  ManualClock clock;
  ManualExecutor executor(clock);
  Deadlines deadlines(executor);
  std::string order;
  deadlines.add(3000, [&] { order += 'c'; });
  const auto cancelled = deadlines.add(2000, [&] { order += 'b'; });
  deadlines.add(1000, [&] { order += 'a'; });
  EXPECT_TRUE(deadlines.cancel(cancelled));
  EXPECT_FALSE(deadlines.cancel(cancelled));
  executor.run_for(2500);
  EXPECT_EQ(order, "a");
  executor.run_for(500);
  EXPECT_EQ(order, "ac");
  EXPECT_EQ(deadlines.waiting(), 0U);
}

// One request over a fresh connection; the server closes it after the answer.
std::string talk(std::uint16_t port, const std::string& request) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::send(fd, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
    answer.append(buffer, static_cast<std::size_t>(got));
  ::close(fd);
  return answer;
}
std::string request_text(const std::string& line, const std::string& body) {
  return line +
         " HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

TEST(RouteTable, ServesEveryRouteAndAnswers404Elsewhere) {
  SystemClock clock;
  ManualClock still;
  ManualExecutor timers(still);
  SeededRandom random(1);
  FakeBroker broker;
  auto routes = std::make_shared<http::Routes>();
  add_routes(*routes, broker, clock, random, timers, {}, Logger(null_log(), "api"));
  http::ServerSettings settings;
  settings.bind_address = "127.0.0.1";
  settings.port = 0;
  settings.threads = 1;
  auto server = http::Server::listen(settings, clock, Logger(null_log(), "http"));
  ASSERT_TRUE(server) << server.error().what;
  (*server)->set_routes(routes);
  const std::uint16_t port = (*server)->port();
  const auto served = [&](const std::string& line, const std::string& body, const std::string& expected) {
    const std::string answer = talk(port, request_text(line, body));
    EXPECT_NE(answer.find(expected), std::string::npos) << line << "\n" << answer;
  };
  served("POST /api/v1/push", R"({"items":[]})", " 201 ");
  served("GET /api/v1/pop/queue/a%2Fb?batch=x", "", "invalid query: batch");
  served("GET /api/v1/pop", "", R"({"success":false)");
  served("POST /api/v1/fetch/offsets", "[]", "bad_body");
  served("GET /api/v1/pop/queue/q/partition/p?conflation=true", "", R"({"success":false)");
  served("POST /api/v1/ack", "{}", R"("code":"bad_body")");
  served("POST /api/v1/ack/batch", "{}", R"("code":"bad_body")");
  served("POST /api/v1/configure", "{}", R"("code":"bad_request")");
  served("GET /api/v1/resources/queues?stats=lanes", "", R"("stats":"lanes")");
  served("GET /api/v1/resources/queues", "", R"("kvRows":0)");
  served("POST /api/v1/fetch", "{}", R"({"entries":[]})");
  served("POST /api/v1/partitions/changed", "{}", R"("safeTimeDegraded":false)");
  served("POST /api/v1/kv", "[]", R"({"results":[]})");
  served("GET /api/v1/push?x=1", "", R"({"code":"no_such_route","error":"not found","path":"/api/v1/push"})");
  served("GET /elsewhere", "", " 404 ");
  (*server)->stop();
}

}  // namespace
}  // namespace queen::api
