// A load generator that costs little itself: one thread, epoll, prepared requests whose ids are patched in
// place.
//
//   push_load --protocol queen|redis --port N --connections N --batch N --payload BYTES --seconds S [--queue
//   NAME]
//
// Each connection keeps one request of `batch` messages in flight (closed loop): an HTTP push, or `batch`
// pipelined XADD commands. One JSON line on stdout: messages, seconds, messages_per_s, requests, p50_us,
// p99_us, errors.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>

#include "load.h"

namespace {

using namespace queen::bench;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string protocol = "queen", queue = "bench";
  int port = 6632, connections = 16, batch = 100, payload = 256;
  double seconds = 10;
};

// A request with the places of its 16-digit ids.
struct Request {
  std::string bytes;
  std::vector<std::size_t> id_places;
};

struct Connection {
  int fd = -1;
  Request request;
  std::size_t sent = 0;
  std::string in;
  int replies_left = 0;  // redis
  Clock::time_point started;
};

constexpr char kIdPlace[] = "################";

Request queen_request(const Options& options, int connection) {
  std::string body = R"({"items":[)";
  for (int i = 0; i < options.batch; ++i) {
    body += fmt::format(R"({}{{"queue":"{}","partition":"p{}","transactionId":"{}","payload":{}}})",
                        i == 0 ? "" : ",", options.queue, connection, kIdPlace,
                        payload_of(options.payload, static_cast<unsigned>(connection * 1009 + i)));
  }
  body += "]}";
  return {post_request("/api/v1/push", body), {}};
}

Request redis_request(const Options& options, int connection) {
  Request out;
  const std::string stream = fmt::format("{}:p{}", options.queue, connection);
  for (int i = 0; i < options.batch; ++i) {
    const std::string payload = payload_of(options.payload, static_cast<unsigned>(connection * 1009 + i));
    out.bytes += fmt::format(
        "*7\r\n$4\r\nXADD\r\n${}\r\n{}\r\n$1\r\n*\r\n$2\r\nid\r\n$16\r\n{}\r\n$4\r\ndata\r\n${}\r\n{}\r\n",
        stream.size(), stream, kIdPlace, payload.size(), payload);
  }
  return out;
}

class Load {
 public:
  explicit Load(const Options& options) : options_(options), epoll_(::epoll_create1(0)) {}

  int run() {
    connections_.resize(static_cast<std::size_t>(options_.connections));
    for (int i = 0; i < options_.connections; ++i) {
      if (!open(connections_[static_cast<std::size_t>(i)], i)) return 1;
    }
    const auto start = Clock::now();
    const auto end =
        start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.seconds));
    for (auto& connection : connections_) begin(connection);
    while (in_flight_ > 0) {
      epoll_event events[64];
      const int count = ::epoll_wait(epoll_, events, 64, 10'000);
      if (count <= 0) break;
      now_ = Clock::now();
      for (int i = 0; i < count; ++i)
        step(*static_cast<Connection*>(events[i].data.ptr), events[i].events, now_ < end);
    }
    report(std::chrono::duration<double>(last_answer_ - start).count());
    return errors_ == 0 && in_flight_ == 0 ? 0 : 1;
  }

 private:
  bool open(Connection& connection, int number) {
    connection.fd = connect_to(options_.port);
    if (connection.fd < 0) {
      fmt::print(stderr, "push_load: cannot connect to port {}\n", options_.port);
      return false;
    }
    ::fcntl(connection.fd, F_SETFL, O_NONBLOCK);
    connection.request =
        options_.protocol == "redis" ? redis_request(options_, number) : queen_request(options_, number);
    auto& request = connection.request;
    for (std::size_t at = request.bytes.find(kIdPlace); at != std::string::npos;
         at = request.bytes.find(kIdPlace, at + 16)) {
      request.id_places.push_back(at);
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &connection;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.fd, &event);
    return true;
  }

  void begin(Connection& connection) {
    for (const std::size_t place : connection.request.id_places) {
      std::uint64_t id = next_id_++;
      for (int digit = 15; digit >= 0; --digit, id >>= 4) {
        connection.request.bytes[place + static_cast<std::size_t>(digit)] = "0123456789abcdef"[id & 15];
      }
    }
    connection.sent = 0;
    connection.in.clear();
    connection.replies_left = options_.batch;
    connection.started = Clock::now();
    ++in_flight_;
    send(connection);
  }

  void send(Connection& connection) {
    const std::string& bytes = connection.request.bytes;
    while (connection.sent < bytes.size()) {
      const ssize_t n =
          ::send(connection.fd, bytes.data() + connection.sent, bytes.size() - connection.sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      connection.sent += static_cast<std::size_t>(n);
    }
    epoll_event event{};
    event.events = connection.sent < bytes.size() ? (EPOLLIN | EPOLLOUT) : EPOLLIN;
    event.data.ptr = &connection;
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event);
  }

  void step(Connection& connection, std::uint32_t events, bool more) {
    if ((events & EPOLLOUT) != 0) send(connection);
    if ((events & EPOLLIN) == 0) return;
    char buffer[64 * 1024];
    const ssize_t n = ::recv(connection.fd, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      fail(connection);
      return;
    }
    connection.in.append(buffer, static_cast<std::size_t>(n));
    const int verdict = options_.protocol == "redis" ? redis_done(connection) : http_done(connection);
    if (verdict == 0) return;
    last_answer_ = now_;
    --in_flight_;
    if (verdict < 0) {
      ++errors_;
      if (errors_ < 3) fmt::print(stderr, "push_load: {}\n", connection.in.substr(0, 300));
    } else {
      ++requests_;
      latencies_.push_back(static_cast<std::uint32_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(now_ - connection.started).count()));
    }
    if (more) begin(connection);
  }

  void fail(Connection& connection) {
    ++errors_;
    --in_flight_;
    ::close(connection.fd);
  }

  // 0 not yet, 1 stored, -1 refused.
  static int http_done(const Connection& connection) {
    const std::string_view in = connection.in;
    const auto head = in.find("\r\n\r\n");
    if (head == std::string_view::npos) return 0;
    const auto field = in.find("Content-Length: ");
    std::size_t length = 0;
    if (field != std::string_view::npos && field < head)
      std::from_chars(in.data() + field + 16, in.data() + head, length);
    if (in.size() < head + 4 + length) return 0;
    return in.starts_with("HTTP/1.1 201") && in.find("\"status\":\"queued\"", head) != std::string_view::npos
               ? 1
               : -1;
  }

  // Every reply is `$len\r\nid\r\n`.
  static int redis_done(Connection& connection) {
    std::size_t at = 0;
    const std::string& in = connection.in;
    while (connection.replies_left > 0) {
      if (at < in.size() && in[at] != '$') return -1;
      const auto first = in.find("\r\n", at);
      const auto second = first == std::string::npos ? first : in.find("\r\n", first + 2);
      if (second == std::string::npos) break;
      at = second + 2;
      --connection.replies_left;
    }
    connection.in.erase(0, at);
    return connection.replies_left == 0 ? 1 : 0;
  }

  void report(double seconds) {
    std::sort(latencies_.begin(), latencies_.end());
    const auto percentile = [&](double p) {
      return latencies_.empty()
                 ? 0U
                 : latencies_[static_cast<std::size_t>(p * static_cast<double>(latencies_.size() - 1))];
    };
    const std::uint64_t messages = requests_ * static_cast<std::uint64_t>(options_.batch);
    fmt::print(
        "{{\"messages\":{},\"seconds\":{:.3f},\"messages_per_s\":{:.0f},\"requests\":{},\"p50_us\":{},\"p99_"
        "us\":{},\"errors\":{}}}\n",
        messages, seconds, static_cast<double>(messages) / seconds, requests_, percentile(0.5),
        percentile(0.99), errors_);
  }

  const Options options_;
  const int epoll_;
  std::vector<Connection> connections_;
  std::vector<std::uint32_t> latencies_;
  std::uint64_t next_id_ = static_cast<std::uint64_t>(::getpid()) << 40;
  std::uint64_t requests_ = 0, errors_ = 0;
  int in_flight_ = 0;
  Clock::time_point now_ = Clock::now(), last_answer_ = now_;
};

bool parse(int argc, char** argv, Options& options) {
  const std::map<std::string_view, int*> numbers = {{"--port", &options.port},
                                                    {"--connections", &options.connections},
                                                    {"--batch", &options.batch},
                                                    {"--payload", &options.payload}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (const auto found = numbers.find(name); found != numbers.end()) {
      *found->second = std::atoi(argv[i + 1]);
    } else if (name == "--protocol") {
      options.protocol = argv[i + 1];
    } else if (name == "--queue") {
      options.queue = argv[i + 1];
    } else if (name == "--seconds") {
      options.seconds = std::atof(argv[i + 1]);
    } else {
      return false;
    }
  }
  return argc % 2 == 1 && options.batch > 0 && options.connections > 0 && options.payload >= 64;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    fmt::print(stderr,
               "usage: push_load --protocol queen|redis --port N --connections N --batch N --payload BYTES "
               "--seconds S\n");
    return 2;
  }
  return Load(options).run();
}
