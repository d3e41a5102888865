// A small HTTP/1.1 server for tests: one thread, keeps every request it reads, answers what the test tells it
// to.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "s3/sigv4.h"

namespace queen::s3 {

struct SeenRequest {
  std::string method;
  std::string target;  // path and query as they came
  std::string version;
  std::vector<NamedValue> headers;  // names in lower case
  std::string body;
  std::string header(std::string_view name) const;
  std::vector<std::string> header_names() const;  // sorted
};

struct ServerReply {
  int status = 200;
  std::vector<NamedValue> headers;
  std::string body;
  enum class Then : std::uint8_t {
    keep,
    close,
    hang,
    drop
  } then = Then::keep;  // hang, drop: no answer at all
  int pause_ms = 0;     // before each byte of the body: a slow line
};

class RecordingServer {
 public:
  using Handler = std::function<ServerReply(const SeenRequest&)>;
  // Asked as soon as the head is there; an answer is sent at once and the connection closed with the body
  // unread.
  using EarlyHandler = std::function<std::optional<ServerReply>(const SeenRequest&)>;

  explicit RecordingServer(Handler handler, EarlyHandler early = nullptr);
  ~RecordingServer();
  RecordingServer(const RecordingServer&) = delete;
  RecordingServer& operator=(const RecordingServer&) = delete;

  int port() const { return port_; }
  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string endpoint() const { return "http://" + host(); }
  std::vector<SeenRequest> seen() const;
  // Accepts, and from now on reads nothing.
  void stop_reading() { reading_.store(false); }
  // Answers held back by a hang go out with this body and status 200.
  void release_hanging();
  std::size_t hanging() const { return hanging_.load(); }

 private:
  struct Connection {
    std::string in;
    bool waits = false;  // its request hangs
  };
  void run();
  void accept_one();
  bool read_some(int fd, Connection& connection);  // false: close it
  bool answer_requests(int fd, Connection& connection);
  static bool send_reply(int fd, const ServerReply& reply, bool is_head);

  Handler handler_;
  EarlyHandler early_;
  int listener_ = -1;
  int port_ = 0;
  std::map<int, Connection> connections_;  // by descriptor; the thread's
  mutable std::mutex mutex_;               // guards seen_
  std::vector<SeenRequest> seen_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> reading_{true};
  std::atomic<bool> release_{false};
  std::atomic<std::size_t> hanging_{0};
  std::thread thread_;
};

}  // namespace queen::s3
