// End to end: producers and consumers on one thread, epoll, little cost of its own.
//
//   flow_load --protocol queen|redis --port N --producers N --consumers N --partitions N --batch N --payload
//   BYTES
//             --seconds S [--window MESSAGES] [--claim PARTITIONS] [--rate MESSAGES_PER_S]
//
// A producer keeps one push of `batch` messages in flight, to one partition after another, and rests while
// more than `window` messages are stored and not acknowledged. A consumer pops up to `batch` messages and
// acknowledges all of them by name in one request, then pops again. With --rate a push goes out at that pace
// instead. Redis: one stream a partition, XADD pipelined, XREADGROUP of the consumer's share of the streams,
// XACK. One JSON line on stdout.
#include <chrono>
#include <cstring>
#include <map>

#include "load.h"

namespace {

using namespace queen::bench;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string protocol = "queen", queue = "bench", group = "workers";
  int port = 6632, producers = 8, consumers = 8, partitions = 1, batch = 100, payload = 256, window = 50'000,
      claim = 1, rate = 0;
  double seconds = 10;
  bool redis() const { return protocol == "redis"; }
};

enum class Doing { nothing, pushing, popping, acking };

struct Connection {
  int fd = -1, number = 0;
  bool producer = false;
  Doing doing = Doing::nothing;
  std::string out, in;
  std::size_t sent = 0;
  int replies_left = 0;  // redis
  int held = 0;          // messages popped and not acknowledged
  Clock::time_point started;
};

class Flow {
 public:
  explicit Flow(const Options& options) : options_(options), epoll_(::epoll_create1(0)) {
    for (int i = 0; i < options_.batch; ++i)
      payloads_.push_back(payload_of(options_.payload, static_cast<unsigned>(i * 7 + 1)));
  }

  int run() {
    connections_.resize(static_cast<std::size_t>(options_.producers + options_.consumers));
    for (std::size_t i = 0; i < connections_.size(); ++i)
      if (!open(connections_[i], static_cast<int>(i))) return 1;
    if (options_.redis() && !make_redis_groups()) return 1;
    start_ = now_ = Clock::now();
    end_ =
        start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.seconds));
    for (auto& connection : connections_) next(connection);
    while (now_ < end_ && errors_ == 0) {
      epoll_event events[64];
      const int count = ::epoll_wait(epoll_, events, 64, options_.rate > 0 ? 1 : 100);
      now_ = Clock::now();
      for (int i = 0; i < count; ++i) step(*static_cast<Connection*>(events[i].data.ptr), events[i].events);
      for (auto& connection : connections_)
        if (connection.doing == Doing::nothing) next(connection);
    }
    report();
    return errors_ == 0 ? 0 : 1;
  }

 private:
  bool open(Connection& connection, int number) {
    connection.producer = number < options_.producers;
    connection.number = connection.producer ? number : number - options_.producers;
    connection.fd = connect_to(options_.port);
    if (connection.fd < 0) {
      fmt::print(stderr, "flow_load: cannot connect to port {}\n", options_.port);
      return false;
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = &connection;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.fd, &event);
    if (!options_.redis()) ::fcntl(connection.fd, F_SETFL, O_NONBLOCK);
    return true;
  }

  std::string stream(int partition) const { return fmt::format("{}:p{}", options_.queue, partition); }
  static std::string bulk(std::string_view text) { return fmt::format("${}\r\n{}\r\n", text.size(), text); }

  // While the sockets still block.
  bool make_redis_groups() {
    Connection& connection = connections_.front();
    for (int partition = 0; partition < options_.partitions; ++partition) {
      const std::string command = "*6\r\n" + bulk("XGROUP") + bulk("CREATE") + bulk(stream(partition)) +
                                  bulk(options_.group) + bulk("0") + bulk("MKSTREAM");
      char answer[256];
      if (::send(connection.fd, command.data(), command.size(), MSG_NOSIGNAL) < 0) return false;
      if (::recv(connection.fd, answer, sizeof answer, 0) <= 0) return false;
    }
    for (auto& each : connections_) ::fcntl(each.fd, F_SETFL, O_NONBLOCK);
    return true;
  }

  void next(Connection& connection) {
    if (now_ >= end_) return;
    if (!connection.producer) {
      // At a pace: a pop is timed only when a whole batch is there to be had.
      if (options_.rate > 0 && pushed_ - acked_ < static_cast<std::uint64_t>(options_.batch)) {
        connection.doing = Doing::nothing;
        return;
      }
      return pop(connection);
    }
    if (pushed_ - acked_ > static_cast<std::uint64_t>(options_.window)) return;
    if (options_.rate > 0) {
      const double due = std::chrono::duration<double>(now_ - start_).count() * options_.rate;
      if (static_cast<double>(sent_) > due) return;
    }
    push(connection);
  }

  void push(Connection& connection) {
    const auto partition = static_cast<int>(next_partition_++ % static_cast<unsigned>(options_.partitions));
    std::string body;
    for (int i = 0; i < options_.batch; ++i) {
      const std::string id = fmt::format("{:016x}", next_id_++);
      const std::string& payload = payloads_[static_cast<std::size_t>(i)];
      if (options_.redis())
        body += "*7\r\n" + bulk("XADD") + bulk(stream(partition)) + bulk("*") + bulk("id") + bulk(id) +
                bulk("data") + bulk(payload);
      else
        body += fmt::format(R"({}{{"queue":"{}","partition":"p{}","transactionId":"{}","payload":{}}})",
                            i == 0 ? "" : ",", options_.queue, partition, id, payload);
    }
    sent_ += static_cast<std::uint64_t>(options_.batch);
    if (options_.redis())
      send(connection, Doing::pushing, std::move(body), options_.batch);
    else
      post(connection, Doing::pushing, "/api/v1/push", "{\"items\":[" + body + "]}");
  }

  void pop(Connection& connection) {
    if (!options_.redis()) {
      send(
          connection, Doing::popping,
          fmt::format("GET /api/v1/pop/queue/{}?consumerGroup={}&subscriptionMode=all&batch={}&partitions={}&"
                      "wait=true&timeout=2000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                      options_.queue, options_.group, options_.batch, options_.claim),
          1);
      return;
    }
    std::vector<int> share;
    for (int p = connection.number; p < options_.partitions; p += options_.consumers) share.push_back(p);
    if (share.empty()) share.push_back(0);
    std::string command = fmt::format("*{}\r\n", 9 + 2 * share.size()) + bulk("XREADGROUP") + bulk("GROUP") +
                          bulk(options_.group) + bulk(fmt::format("c{}", connection.number)) + bulk("COUNT") +
                          bulk(std::to_string(options_.batch)) + bulk("BLOCK") + bulk("2000") +
                          bulk("STREAMS");
    for (const int p : share) command += bulk(stream(p));
    for (std::size_t i = 0; i < share.size(); ++i) command += bulk(">");
    send(connection, Doing::popping, std::move(command), 1);
  }

  void post(Connection& connection, Doing doing, std::string_view path, const std::string& body) {
    send(connection, doing, post_request(path, body), 1);
  }

  void send(Connection& connection, Doing doing, std::string bytes, int replies) {
    connection.doing = doing;
    connection.out = std::move(bytes);
    connection.sent = 0;
    connection.in.clear();
    connection.replies_left = replies;
    connection.started = Clock::now();
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
    if (n <= 0) return fail(connection, "the connection ended");
    connection.in.append(buffer, static_cast<std::size_t>(n));
    if (options_.redis() ? redis_whole(connection) : answer_whole(connection.in)) answered(connection);
  }

  // The end of the RESP value at `at`, or npos while it is not whole.
  static std::size_t resp_end(std::string_view in, std::size_t at) {
    const std::size_t line = in.find("\r\n", at);
    if (line == std::string_view::npos) return line;
    if (in[at] != '$' && in[at] != '*') return line + 2;
    long count = 0;
    std::from_chars(in.data() + at + 1, in.data() + line, count);
    if (count < 0) return line + 2;
    if (in[at] == '$') {
      const std::size_t end = line + 2 + static_cast<std::size_t>(count) + 2;
      return end <= in.size() ? end : std::string_view::npos;
    }
    std::size_t next = line + 2;
    for (long i = 0; i < count && next != std::string_view::npos; ++i)
      next = next < in.size() ? resp_end(in, next) : std::string_view::npos;
    return next;
  }

  static bool redis_whole(Connection& connection) {
    std::size_t at = 0;
    int replies = 0;
    while (replies < connection.replies_left && at < connection.in.size()) {
      const std::size_t end = resp_end(connection.in, at);
      if (end == std::string::npos) return false;
      at = end;
      ++replies;
    }
    return replies == connection.replies_left;
  }

  void answered(Connection& connection) {
    const auto micros = static_cast<std::uint32_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(now_ - connection.started).count());
    switch (connection.doing) {
      case Doing::pushing:
        if (!options_.redis() && !connection.in.starts_with("HTTP/1.1 201"))
          return fail(connection, connection.in.substr(0, 300));
        if (options_.redis() && connection.in.front() == '-')
          return fail(connection, connection.in.substr(0, 300));
        pushed_ += static_cast<std::uint64_t>(options_.batch);
        push_us_.push_back(micros);
        connection.doing = Doing::nothing;
        return next(connection);
      case Doing::popping:
        return options_.redis() ? ack_redis(connection) : ack_queen(connection, micros);
      case Doing::acking:
        if (!options_.redis() && !connection.in.starts_with("HTTP/1.1 200"))
          return fail(connection, connection.in.substr(0, 300));
        acked_ += static_cast<std::uint64_t>(connection.held);
        return next(connection);
      case Doing::nothing:
        return fail(connection, "an answer that nobody asked for");
    }
  }

  void ack_queen(Connection& connection, std::uint32_t micros) {
    if (connection.in.starts_with("HTTP/1.1 204")) return next(connection);
    if (!connection.in.starts_with("HTTP/1.1 200")) return fail(connection, connection.in.substr(0, 300));
    const std::string_view in = connection.in;
    std::size_t at = in.find("\"leaseId\":\"");
    const std::string lease(between(in, at, "\"leaseId\":\""));
    std::string body = fmt::format(R"({{"consumerGroup":"{}","acknowledgments":[)", options_.group);
    connection.held = 0;
    for (;;) {
      const std::string_view id = between(in, at, "\"transactionId\":\"");
      if (id.empty()) break;
      const std::string_view partition = between(in, at, "\"partitionId\":\"");
      body += fmt::format(R"({}{{"transactionId":"{}","partitionId":"{}","leaseId":"{}"}})",
                          connection.held == 0 ? "" : ",", id, partition, lease);
      ++connection.held;
    }
    if (connection.held >= options_.batch) pop_us_.push_back(micros);
    post(connection, Doing::acking, "/api/v1/ack/batch", body + "]}");
  }

  // Entry ids are the bulk strings with a dash in them; the stream's name stands before its entries.
  void ack_redis(Connection& connection) {
    const std::string_view in = connection.in;
    std::string out;
    int replies = 0;
    connection.held = 0;
    const std::string prefix = options_.queue + ":p";
    std::string name;
    std::vector<std::string_view> ids;
    const auto flush = [&] {
      if (ids.empty()) return;
      out += fmt::format("*{}\r\n", 3 + ids.size()) + bulk("XACK") + bulk(name) + bulk(options_.group);
      for (const auto id : ids) out += bulk(id);
      connection.held += static_cast<int>(ids.size());
      ++replies;
      ids.clear();
    };
    for (std::size_t at = 0; at < in.size();) {
      const std::size_t line = in.find("\r\n", at);
      if (in[at] != '$') {
        at = line + 2;
        continue;
      }
      std::size_t length = 0;
      std::from_chars(in.data() + at + 1, in.data() + line, length);
      const std::string_view text = in.substr(line + 2, length);
      if (text.starts_with(prefix)) {
        flush();
        name = text;
      } else if (text.size() < 32 && text.find('-') != std::string_view::npos) {
        ids.push_back(text);
      }
      at = line + 2 + length + 2;
    }
    flush();
    if (replies == 0) return next(connection);
    send(connection, Doing::acking, std::move(out), replies);
  }

  void fail(Connection& connection, std::string_view text) {
    ++errors_;
    fmt::print(stderr, "flow_load: {} ({})\n", text, connection.producer ? "producer" : "consumer");
  }

  void report() {
    const double seconds = std::chrono::duration<double>(now_ - start_).count();
    fmt::print(
        "{{\"pushed\":{},\"consumed\":{},\"seconds\":{:.3f},\"pushed_per_s\":{:.0f},\"consumed_per_s\":{:.0f}"
        ","
        "\"push_p50_us\":{},\"push_p99_us\":{},\"full_pops\":{},\"pop_p50_us\":{},\"pop_p99_us\":{}}}\n",
        pushed_, acked_, seconds, static_cast<double>(pushed_) / seconds,
        static_cast<double>(acked_) / seconds, percentile(push_us_, 0.5), percentile(push_us_, 0.99),
        pop_us_.size(), percentile(pop_us_, 0.5), percentile(pop_us_, 0.99));
  }

  const Options options_;
  const int epoll_;
  std::vector<std::string> payloads_;
  std::vector<Connection> connections_;
  std::vector<std::uint32_t> push_us_, pop_us_;
  std::uint64_t next_id_ = static_cast<std::uint64_t>(::getpid()) << 40;
  std::uint64_t next_partition_ = 0, sent_ = 0, pushed_ = 0, acked_ = 0, errors_ = 0;
  Clock::time_point start_, end_, now_;
};

bool parse(int argc, char** argv, Options& options) {
  const std::map<std::string_view, int*> numbers = {{"--port", &options.port},
                                                    {"--producers", &options.producers},
                                                    {"--consumers", &options.consumers},
                                                    {"--batch", &options.batch},
                                                    {"--payload", &options.payload},
                                                    {"--partitions", &options.partitions},
                                                    {"--window", &options.window},
                                                    {"--claim", &options.claim},
                                                    {"--rate", &options.rate}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (const auto found = numbers.find(name); found != numbers.end())
      *found->second = std::atoi(argv[i + 1]);
    else if (name == "--protocol")
      options.protocol = argv[i + 1];
    else if (name == "--seconds")
      options.seconds = std::atof(argv[i + 1]);
    else
      return false;
  }
  return argc % 2 == 1 && options.batch > 0 && options.producers + options.consumers > 0 &&
         options.partitions > 0 && options.payload >= 64;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    fmt::print(stderr,
               "usage: flow_load --protocol queen|redis --port N --producers N --consumers N --partitions N "
               "--batch N --payload BYTES --seconds S [--window N] [--claim N] [--rate N]\n");
    return 2;
  }
  return Flow(options).run();
}
