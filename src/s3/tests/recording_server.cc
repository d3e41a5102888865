#include "recording_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/invariant.h"
#include "base/text.h"

namespace queen::s3 {
namespace {

constexpr int kPollMs = 5;

std::optional<SeenRequest> parse_head(std::string_view head) {
  SeenRequest seen;
  const std::size_t line_end = head.find("\r\n");
  const std::string_view line = head.substr(0, line_end);
  const std::size_t first = line.find(' ');
  const std::size_t second = line.rfind(' ');
  if (first == std::string_view::npos || second <= first) return std::nullopt;
  seen.method = line.substr(0, first);
  seen.target = line.substr(first + 1, second - first - 1);
  seen.version = line.substr(second + 1);
  for (std::size_t at = line_end + 2; at < head.size();) {
    const std::size_t end = head.find("\r\n", at);
    if (end == std::string_view::npos || end == at) break;
    const std::string_view header = head.substr(at, end - at);
    const std::size_t colon = header.find(':');
    if (colon != std::string_view::npos)
      seen.headers.push_back({lower_ascii(header.substr(0, colon)), trim(header.substr(colon + 1))});
    at = end + 2;
  }
  return seen;
}

std::size_t body_size(const SeenRequest& seen) {
  const std::string text = seen.header("content-length");
  return text.empty() ? 0 : std::stoull(text);
}

}  // namespace

std::string SeenRequest::header(std::string_view name) const {
  for (const NamedValue& held : headers)
    if (held.name == name) return held.value;
  return {};
}

std::vector<std::string> SeenRequest::header_names() const {
  std::vector<std::string> names;
  for (const NamedValue& held : headers) names.push_back(held.name);
  std::sort(names.begin(), names.end());
  return names;
}

RecordingServer::RecordingServer(Handler handler, EarlyHandler early)
    : handler_(std::move(handler)), early_(std::move(early)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::listen(listener_, 64) == 0 &&
                     ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  INVARIANT(bound, "the test server gets no port");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

RecordingServer::~RecordingServer() {
  stopping_.store(true);
  thread_.join();
  for (const auto& [fd, connection] : connections_) ::close(fd);
  ::close(listener_);
}

std::vector<SeenRequest> RecordingServer::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void RecordingServer::release_hanging() {
  release_.store(true);
}

void RecordingServer::run() {
  while (!stopping_.load()) {
    std::vector<pollfd> polled = {{listener_, POLLIN, 0}};
    for (const auto& [fd, connection] : connections_)
      if (reading_.load() && !connection.waits) polled.push_back({fd, POLLIN, 0});
    ::poll(polled.data(), polled.size(), kPollMs);
    if ((polled[0].revents & POLLIN) != 0) accept_one();
    for (std::size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      const int fd = polled[i].fd;
      if (read_some(fd, connections_[fd])) continue;
      ::close(fd);
      connections_.erase(fd);
    }
    if (!release_.load()) continue;
    for (auto& [fd, connection] : connections_)
      if (std::exchange(connection.waits, false)) send_reply(fd, {}, false);
  }
}

void RecordingServer::accept_one() {
  const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd >= 0) connections_[fd];
}

bool RecordingServer::read_some(int fd, Connection& connection) {
  char bytes[64 << 10];
  const ssize_t size = ::recv(fd, bytes, sizeof bytes, 0);
  if (size <= 0) return false;
  connection.in.append(bytes, static_cast<std::size_t>(size));
  return answer_requests(fd, connection);
}

bool RecordingServer::answer_requests(int fd, Connection& connection) {
  const std::size_t head_end = connection.in.find("\r\n\r\n");
  if (head_end == std::string::npos) return true;
  auto seen = parse_head(std::string_view(connection.in).substr(0, head_end + 2));
  if (!seen) return false;
  if (early_) {
    if (const auto reply = early_(*seen)) {
      const std::lock_guard lock(mutex_);
      seen_.push_back(*seen);
      send_reply(fd, *reply, false);
      return false;
    }
  }
  const std::size_t size = head_end + 4 + body_size(*seen);
  if (connection.in.size() < size) return true;
  seen->body = connection.in.substr(head_end + 4, size - head_end - 4);
  connection.in.erase(0, size);
  {
    const std::lock_guard lock(mutex_);
    seen_.push_back(*seen);
  }
  const ServerReply reply = handler_(*seen);
  if (reply.then == ServerReply::Then::drop) return false;
  if (reply.then == ServerReply::Then::hang) {
    connection.waits = true;
    ++hanging_;
    return true;
  }
  return send_reply(fd, reply, seen->method == "HEAD") && reply.then == ServerReply::Then::keep;
}

bool RecordingServer::send_reply(int fd, const ServerReply& reply, bool is_head) {
  std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " X\r\n";
  bool sized = false;
  for (const NamedValue& header : reply.headers) {
    text += header.name + ": " + header.value + "\r\n";
    sized = sized || lower_ascii(header.name) == "content-length";
  }
  if (!sized && reply.status != 204) text += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
  if (reply.then == ServerReply::Then::close) text += "Connection: close\r\n";
  text += "\r\n";
  if (!is_head) text += reply.body;
  const std::size_t slow = reply.pause_ms > 0 ? reply.body.size() : 0;
  for (std::string_view rest = text; !rest.empty();) {
    if (rest.size() <= slow) ::poll(nullptr, 0, reply.pause_ms);
    const ssize_t size = ::send(fd, rest.data(), rest.size() > slow ? rest.size() - slow : 1, MSG_NOSIGNAL);
    if (size <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

}  // namespace queen::s3
