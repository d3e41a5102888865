// One JSON request over HTTP and its answer.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace queen::cli {

struct HttpReply {
  long status = 0;
  std::string body;
};

// Keeps its connection. Follows no redirect. Blocks for at most 5 s to connect and 60 s for an answer.
class HttpPoster {
 public:
  // `base` is http(s)://host[:port]; `header` is sent along when it is not empty.
  HttpPoster(std::string base, std::string header);
  ~HttpPoster();
  HttpPoster(const HttpPoster&) = delete;
  HttpPoster& operator=(const HttpPoster&) = delete;

  // Errors: unavailable (no whole answer), naming the address.
  Result<HttpReply> post(const std::string& path, const std::string& body);

 private:
  struct Handle;
  const std::string base_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace queen::cli
