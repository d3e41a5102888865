// HTTP/1.1 requests on libcurl's multi interface, driven by one thread of its own. Knows nothing of S3.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/unique_function.h"
#include "s3/request_cap.h"
#include "s3/sigv4.h"

namespace queen::s3 {

enum class Breakage : std::uint8_t { none, resolve, connect, tls, stalled, other };

struct HttpRequest {
  std::string method;
  std::string url;  // on the wire exactly as it stands here
  std::vector<NamedValue>
      headers;  // `host` among them; nothing else goes out but content-length and user-agent
  std::shared_ptr<const Bytes> body_owner;  // keeps `body` alive
  BytesView body;
  std::uint64_t answer_bytes_max = 1 << 20;  // of a success
};

struct HttpAnswer {
  int status = 0;  // 0: no answer, see breakage
  Breakage breakage = Breakage::none;
  std::string breakage_text;
  bool too_large = false;           // a success above answer_bytes_max; `body` is cut
  std::vector<NamedValue> headers;  // names in lower case
  Bytes body;                       // of an error answer: what came of it, at most 64 KiB
  // Empty when there is no such header.
  std::string_view header(std::string_view name) const;
};

struct HttpSettings {
  std::string user_agent;
  std::string ca_file;
  int in_flight_max = 16;
  std::shared_ptr<RequestCap> node_cap;  // null = none
  std::int64_t progress_timeout_us = 30'000'000;
};

// post() is thread-safe; everything else belongs to the engine's thread, on which all work and answers run.
class HttpEngine {
 public:
  using Work = UniqueFunction<void()>;
  using Make = UniqueFunction<HttpRequest()>;
  using Done = UniqueFunction<void(HttpAnswer)>;

  HttpEngine(HttpSettings settings, Clock& clock);
  // Runs what was posted, drops transfers and timers, joins the thread.
  ~HttpEngine();
  HttpEngine(const HttpEngine&) = delete;
  HttpEngine& operator=(const HttpEngine&) = delete;

  void post(Work work);
  // Begins when fewer than in_flight_max run and the node has a place; the waiting is first come, first
  // served, bounded by the caller's calls. `make` is called when the request really goes out, so that its
  // date is fresh; it must not call the engine.
  std::uint64_t start(Make make, Done done);
  std::uint64_t start_timer(std::int64_t us, Work work);
  // Ends a transfer (its connection too, when it is under way) or a timer; its callback is destroyed
  // uncalled. An id that is over already is ignored.
  void abandon(std::uint64_t id);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace queen::s3
