// A blocking loopback client that sees bytes as they are, and a server to talk to.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <charconv>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/server.h"

namespace queen::http::test {

// A latch that a test waits for; ten seconds without it fail the test.
class Latch {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

// Keeps what a handler was given for the test's thread to answer.
class Parked {
 public:
  void put(Responder responder) {
    const std::lock_guard lock(mutex_);
    held_.push_back(std::move(responder));
    changed_.notify_all();
  }
  Responder take() {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, std::chrono::seconds(10), [this] { return !held_.empty(); });
    EXPECT_TRUE(came) << "no request was parked";
    Responder responder = came ? std::move(held_.front()) : Responder(nullptr);
    if (came) held_.erase(held_.begin());
    return responder;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Responder> held_;
};

struct Answer {
  int status = 0;
  std::string head;
  std::string body;
};

class Client {
 public:
  explicit Client(std::uint16_t port, int receive_buffer_bytes = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer_bytes > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
    }
    const timeval limit{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  Client(Client&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_), rest_(std::move(other.rest_)) {}
  Client& operator=(Client&&) = delete;
  ~Client() { close(); }

  bool connected() const { return connected_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void finish_sending() { ::shutdown(fd_, SHUT_WR); }
  std::uint16_t local_port() const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }
  // False when the peer has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // The next answer; status 0 when the connection ends or is silent before it is whole.
  Answer receive(bool with_body = true) {
    Answer answer;
    std::size_t end = std::string::npos;
    while ((end = rest_.find("\r\n\r\n")) == std::string::npos) {
      if (!more()) return {};
    }
    answer.head = rest_.substr(0, end + 2);
    rest_.erase(0, end + 4);
    const std::size_t size = with_body ? content_length(answer.head) : 0;
    while (rest_.size() < size) {
      if (!more()) return {};
    }
    answer.body = rest_.substr(0, size);
    rest_.erase(0, size);
    answer.status = std::stoi(answer.head.substr(9, 3));
    return answer;
  }
  // True when the peer closes without sending anything further.
  bool closed_by_peer() {
    char byte = 0;
    const ssize_t got = ::recv(fd_, &byte, 1, 0);
    return rest_.empty() && (got == 0 || (got < 0 && errno == ECONNRESET));
  }

 private:
  bool more() {
    char bytes[16384];
    const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    rest_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }
  static std::size_t content_length(const std::string& head) {
    constexpr std::string_view kName = "Content-Length: ";
    const std::size_t at = head.find(kName);
    return at == std::string::npos ? 0 : std::stoul(head.substr(at + kName.size()));
  }

  int fd_;
  bool connected_ = false;
  std::string rest_;
};

inline std::string post(std::string_view path, std::string_view body) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: q\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         std::string(body);
}
inline std::string get(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: q\r\n\r\n";
}

inline Response text(int status, std::string body) {
  Response response;
  response.status = status;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

// Routes: POST /echo, GET /empty (204), GET /park (answered by the test), GET /drop (never answered),
// GET /show/:a/:b, GET /big/:bytes.
class ServerTest : public ::testing::Test {
 protected:
  void start(ServerSettings settings = {}, LogSink& log = null_log()) {
    settings.bind_address = "127.0.0.1";
    settings.port = 0;
    auto listening = Server::listen(settings, clock_, Logger(log, "http"));
    ASSERT_TRUE(listening) << listening.error().what;
    server_ = std::move(*listening);
    server_->set_routes(routes());
  }
  Client client() { return Client(server_->port()); }

  std::shared_ptr<const Routes> routes() {
    auto table = std::make_shared<Routes>();
    table->add(Method::post, "/echo", [](Request request, Responder responder) {
      responder.send(text(200, std::move(request.body)));
    });
    table->add(Method::get, "/empty", [](Request, Responder responder) { responder.send(text(204, "")); });
    table->add(Method::get, "/park",
               [this](Request, Responder responder) { parked_.put(std::move(responder)); });
    table->add(Method::get, "/drop", [](Request, Responder) {});
    table->add(Method::get, "/show/:a/:b", [](Request request, Responder responder) {
      responder.send(text(200, request.params[0] + "|" + request.params[1] + "|" +
                                   request.query_value("q").value_or("-") + "|" + request.tenant_header));
    });
    const Handler big = [](Request request, Responder responder) {
      responder.send(text(200, std::string(std::stoul(request.params[0]), 'x')));
    };
    table->add(Method::get, "/big/:bytes", big);
    table->add(Method::head, "/big/:bytes", big);
    return table;
  }

  SystemClock clock_;
  Parked parked_;
  std::unique_ptr<Server> server_;
};

}  // namespace queen::http::test
