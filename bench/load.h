// What the load generators share: sockets, requests, payloads, percentiles.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace queen::bench {

// A connected TCP socket of this machine that blocks, or -1.
inline int connect_to(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    ::close(fd);
    return -1;
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

// A JSON object of exactly `bytes` bytes that looks like an event: names repeat, values vary.
inline std::string payload_of(int bytes, unsigned seed) {
  std::string out = fmt::format(R"({{"device":"meter-{:05}","kwh":{}.{:02},"state":"ok","trace":")",
                                seed % 99991, seed % 977, seed % 100);
  unsigned state = seed * 2654435761U + 1;
  while (static_cast<int>(out.size()) < bytes - 2) {
    state = state * 1664525U + 1013904223U;
    out.push_back("0123456789abcdefghijklmnopqrstuvwxyz"[(state >> 16) % 36]);
  }
  return out.substr(0, static_cast<std::size_t>(bytes) - 2) + "\"}";
}

inline std::string post_request(std::string_view path, std::string_view body) {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      path, body.size(), body);
}

// Whether `in` holds a whole answer: a head, and the bytes that its Content-Length promises.
inline bool answer_whole(std::string_view in) {
  const auto head = in.find("\r\n\r\n");
  if (head == std::string_view::npos) return false;
  const auto field = in.find("Content-Length: ");
  std::size_t length = 0;
  if (field != std::string_view::npos && field < head)
    std::from_chars(in.data() + field + 16, in.data() + head, length);
  return in.size() >= head + 4 + length;
}

// The text between `before` and the next quote, from `at` on; `at` moves behind it. Empty when there is none.
inline std::string_view between(std::string_view text, std::size_t& at, std::string_view before) {
  const std::size_t start = text.find(before, at);
  if (start == std::string_view::npos) return {};
  const std::size_t end = text.find('"', start + before.size());
  at = end;
  return text.substr(start + before.size(), end - start - before.size());
}

// Sorts `values`; 0 when there are none.
inline std::uint32_t percentile(std::vector<std::uint32_t>& values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(p * static_cast<double>(values.size() - 1))];
}

}  // namespace queen::bench
