// The state plane under load: one thread, epoll, closed loop.
//
//   state_load --work push|kv|timers|transactions --port N [--connections N] [--batch N] [--seconds S]
//              [--count N] [--keys N] [--delay-ms N] [--spread-ms N] [--queue NAME]
//
// Each connection keeps one request in flight.
//   push          batches of pushes, 100-byte payloads
//   kv            batches of puts: a key of 20 bytes out of `keys` (a million), a value of 80
//   timers        schedules `count` timers in batches; each is due `delay` and a share of `spread` from now,
//   later
//                 ones later; keys of 16 bytes, payloads of 64, 100 partitions
//   transactions  pops 100 messages of its own partition, then one transaction for each: the ack, a push, a
//   KV put.
//                 `count` messages a connection are pushed first and not timed
// One JSON line on stdout: done (messages, rows, timers or transactions), seconds, per_s, p50_us and p99_us
// of a request.
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>

#include "load.h"

namespace {

using namespace queen::bench;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string work = "kv", queue = "bench";
  int port = 6632, connections = 16, batch = 100, count = 0, keys = 1'000'000, delay_ms = 0, spread_ms = 0;
  double seconds = 5;
};

constexpr int kFill = 100;  // messages of one push or pop of the transactions

struct Connection {
  int fd = -1, number = 0;
  std::string out, in;
  std::size_t sent = 0;
  int units = 0;  // what the request in flight counts for
  bool timed = true;
  int to_fill = 0;  // messages to push before the clock runs
  std::string lease, partition_id;
  std::deque<std::string> held;
  Clock::time_point started;
};

class Load {
 public:
  explicit Load(const Options& options) : options_(options), epoll_(::epoll_create1(0)) {
    for (int i = 0; i < 64; ++i) payloads_.push_back(payload_of(100, static_cast<unsigned>(i * 7 + 1)));
  }

  int run() {
    connections_.resize(static_cast<std::size_t>(options_.connections));
    for (std::size_t i = 0; i < connections_.size(); ++i)
      if (!open(connections_[i], static_cast<int>(i))) return 1;
    if (options_.work == "transactions") fill();
    start_ = now_ = Clock::now();
    end_ =
        start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.seconds));
    spin();
    const double seconds = std::chrono::duration<double>(now_ - start_).count();
    fmt::print("{{\"done\":{},\"seconds\":{:.3f},\"per_s\":{:.0f},\"p50_us\":{},\"p99_us\":{}}}\n", done_,
               seconds, static_cast<double>(done_) / seconds, percentile(micros_, 0.5),
               percentile(micros_, 0.99));
    return errors_ == 0 ? 0 : 1;
  }

 private:
  bool open(Connection& connection, int number) {
    connection.number = number;
    connection.fd = connect_to(options_.port);
    if (connection.fd < 0) {
      fmt::print(stderr, "state_load: cannot connect to port {}\n", options_.port);
      return false;
    }
    ::fcntl(connection.fd, F_SETFL, O_NONBLOCK);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &connection;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.fd, &event);
    return true;
  }

  // What the transactions acknowledge, before the clock runs.
  void fill() {
    for (auto& connection : connections_) connection.to_fill = options_.count;
    end_ = Clock::now() + std::chrono::hours(1);
    filling_ = true;
    spin();
    filling_ = false;
  }

  void spin() {
    for (auto& connection : connections_) next(connection);
    while (in_flight_ > 0 && errors_ == 0) {
      epoll_event events[64];
      const int count = ::epoll_wait(epoll_, events, 64, 10'000);
      if (count <= 0) break;
      now_ = Clock::now();
      for (int i = 0; i < count; ++i) step(*static_cast<Connection*>(events[i].data.ptr), events[i].events);
    }
  }

  void next(Connection& connection) {
    if (filling_) {
      if (connection.to_fill <= 0) return;
      connection.to_fill -= kFill;
      return send(connection, push_request(connection.number, kFill), 0, false);
    }
    if (now_ >= end_) return;
    if (options_.work == "push")
      return send(connection, push_request(connection.number, options_.batch), options_.batch, true);
    if (options_.work == "kv") return send(connection, kv_request(), options_.batch, true);
    if (options_.work == "timers") return schedule(connection);
    if (connection.held.empty()) return send(connection, pop_request(connection.number), 0, false);
    send(connection, transaction_request(connection), 1, true);
  }

  std::uint64_t next_id() { return next_id_++; }
  const std::string& payload() const { return payloads_[next_id_ % payloads_.size()]; }

  std::string push_request(int partition, int batch) {
    std::string body = R"({"items":[)";
    for (int i = 0; i < batch; ++i)
      body += fmt::format(R"({}{{"queue":"{}","partition":"p{}","transactionId":"{:016x}","payload":{}}})",
                          i == 0 ? "" : ",", options_.queue, partition, next_id(), payload());
    return post_request("/api/v1/push", body + "]}");
  }

  std::string kv_put() {
    const std::uint64_t key = (next_id() * 0x9E3779B97F4A7C15ULL) % static_cast<std::uint64_t>(options_.keys);
    return fmt::format(
        R"({{"op":"put","ns":"bench","key":"customer-{:011}","value":"{:078}","forever":true}})", key,
        next_id_);
  }
  // The keys of one call are distinct: a multiplier without a factor in common with the number of keys.
  std::string kv_request() {
    std::string body = "[";
    for (int i = 0; i < options_.batch; ++i) body += (i == 0 ? "" : ",") + kv_put();
    return post_request("/api/v1/kv", body + "]");
  }

  void schedule(Connection& connection) {
    const int left = options_.count - static_cast<int>(scheduled_);
    const int batch = std::min(options_.batch, left);
    if (batch <= 0) return;
    std::string body = "[";
    for (int i = 0; i < batch; ++i) {
      const double share = static_cast<double>(scheduled_) / options_.count;
      const auto elapsed = std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
      const auto delay = static_cast<std::int64_t>(options_.delay_ms + share * options_.spread_ms - elapsed);
      body += fmt::format(
          R"({}{{"op":"schedule","queue":"{}","timerKey":"{:016x}","partition":"p{}","delayMs":{},"txn":"t{:015x}","payload":"{}"}})",
          i == 0 ? "" : ",", options_.queue, next_id_, scheduled_ % 100, delay, next_id_, kPayload);
      ++next_id_;
      ++scheduled_;
    }
    send(connection, post_request("/api/v1/timers", body + "]"), batch, true);
  }

  std::string pop_request(int partition) const {
    return fmt::format(
        "GET /api/v1/pop/queue/{}/partition/p{}?consumerGroup=workers&subscriptionMode=all&batch={} "
        "HTTP/1.1\r\nHost: "
        "127.0.0.1\r\n\r\n",
        options_.queue, partition, kFill);
  }
  std::string transaction_request(Connection& connection) {
    const std::string id = connection.held.front();
    connection.held.pop_front();
    return post_request(
        "/api/v1/transaction",
        fmt::format(
            R"({{"operations":[{{"type":"ack","transactionId":"{}","partitionId":"{}","leaseId":"{}","consumerGroup":"workers"}},)"
            R"({{"type":"push","items":[{{"queue":"{}-out","partition":"p{}","transactionId":"{:016x}","payload":{}}}]}}],"kv":[{}]}})",
            id, connection.partition_id, connection.lease, options_.queue, connection.number, next_id(),
            payload(), kv_put()));
  }

  void send(Connection& connection, std::string bytes, int units, bool timed) {
    connection.out = std::move(bytes);
    connection.sent = 0;
    connection.in.clear();
    connection.units = units;
    connection.timed = timed;
    connection.started = Clock::now();
    ++in_flight_;
    write(connection);
  }

  void write(Connection& connection) {
    while (connection.sent < connection.out.size()) {
      const ssize_t n = ::send(connection.fd, connection.out.data() + connection.sent,
                               connection.out.size() - connection.sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      connection.sent += static_cast<std::size_t>(n);
    }
    epoll_event event{};
    event.events = connection.sent < connection.out.size() ? (EPOLLIN | EPOLLOUT) : EPOLLIN;
    event.data.ptr = &connection;
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event);
  }

  void step(Connection& connection, std::uint32_t events) {
    if ((events & EPOLLOUT) != 0) write(connection);
    if ((events & EPOLLIN) == 0) return;
    static char buffer[256 * 1024];
    const ssize_t n = ::recv(connection.fd, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return fail("the connection ended");
    connection.in.append(buffer, static_cast<std::size_t>(n));
    if (answer_whole(connection.in)) answered(connection);
  }

  void answered(Connection& connection) {
    --in_flight_;
    const std::string_view in = connection.in;
    if (!in.starts_with("HTTP/1.1 20") || in.find("\"success\":false") != std::string_view::npos ||
        in.find("\"applied\":false") != std::string_view::npos)
      return fail(in.substr(0, 400));
    if (connection.timed) {
      done_ += static_cast<std::uint64_t>(connection.units);
      micros_.push_back(static_cast<std::uint32_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(now_ - connection.started).count()));
    } else if (!filling_) {
      take(connection);
      if (connection.held.empty()) return;  // all that was filled in is done
    }
    next(connection);
  }

  static void take(Connection& connection) {
    const std::string_view in = connection.in;
    std::size_t at = 0;
    connection.lease = between(in, at, "\"leaseId\":\"");
    for (;;) {
      const std::string_view id = between(in, at, "\"transactionId\":\"");
      if (id.empty()) break;
      connection.held.emplace_back(id);
      connection.partition_id = between(in, at, "\"partitionId\":\"");
    }
  }

  void fail(std::string_view text) {
    ++errors_;
    fmt::print(stderr, "state_load: {}\n", text);
  }

  // Base64 of a JSON object of 64 bytes.
  static constexpr std::string_view kPayload =
      "eyJpbnZvaWNlIjoiMjAyNi0wMDAwMDc3IiwiYWNjb3VudCI6ImFjY3QtMDAwMDA1Iiwia2luZCI6ImR1bm5pbmcifQ==";

  const Options options_;
  const int epoll_;
  std::vector<std::string> payloads_;
  std::vector<Connection> connections_;
  std::vector<std::uint32_t> micros_;
  std::uint64_t next_id_ = static_cast<std::uint64_t>(::getpid()) << 32;
  std::uint64_t scheduled_ = 0, done_ = 0, errors_ = 0, in_flight_ = 0;
  bool filling_ = false;
  Clock::time_point start_, end_, now_;
};

bool parse(int argc, char** argv, Options& options) {
  const std::map<std::string_view, int*> numbers = {
      {"--port", &options.port},          {"--connections", &options.connections},
      {"--batch", &options.batch},        {"--count", &options.count},
      {"--keys", &options.keys},          {"--delay-ms", &options.delay_ms},
      {"--spread-ms", &options.spread_ms}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (const auto found = numbers.find(name); found != numbers.end())
      *found->second = std::atoi(argv[i + 1]);
    else if (name == "--work")
      options.work = argv[i + 1];
    else if (name == "--queue")
      options.queue = argv[i + 1];
    else if (name == "--seconds")
      options.seconds = std::atof(argv[i + 1]);
    else
      return false;
  }
  const bool known = options.work == "push" || options.work == "kv" || options.work == "timers" ||
                     options.work == "transactions";
  return argc % 2 == 1 && known && options.batch > 0 && options.connections > 0 && options.keys > 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    fmt::print(stderr,
               "usage: state_load --work push|kv|timers|transactions --port N [--connections N] [--batch N] "
               "[--seconds S] "
               "[--count N] [--keys N] [--delay-ms N] [--spread-ms N] [--queue NAME]\n");
    return 2;
  }
  return Load(options).run();
}
