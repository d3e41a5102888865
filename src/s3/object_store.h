// An object store that speaks the S3 API, or a double of one (s3-sink.md 17; hardening HD-1 to HD-11).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/unique_function.h"
#include "s3/request_cap.h"

namespace queen::s3 {

// Why a request failed (s3-sink.md 3.3), after the client's own attempts.
enum class Failure : std::uint8_t {
  transport,  // no answer: DNS, connect, TLS, time-out, reset
  status,     // an HTTP status that is no success
  body,       // a success whose content cannot be read
  integrity,  // ETag or checksum mismatch
  cancelled,  // cancel() was called
};

struct S3Error {
  Failure failure = Failure::transport;
  bool retriable = true;
  int status = 0;        // HTTP, 0 when none
  std::string s3_code;   // S3's <Code>, empty when none
  std::string sentence;  // for bucket.error and lastError: operation, status, code, message, request
                         // id, and the setting or permission to change (HD-8); never a secret
  std::optional<std::int64_t> retry_after_us;
  bool throttled =
      false;  // the store asks to slow down (503, 429): it passes by itself and ends no state (HD-6)
};

template <class T>
struct Outcome {
  std::optional<T> value;
  std::optional<S3Error> error;  // exactly one of the two is set
  bool ok() const { return value.has_value(); }
};

struct PutDone {
  std::string etag;
};
struct Listing {
  std::vector<std::string> keys;
  bool truncated = false;  // more after keys.back()
  bool stuck = false;      // the store has more but its page does not advance: the listing ends here (HD-10)
};

struct PutOptions {
  std::string content_type;
  // Called between two parts of a multipart upload, never before the first part: for crash tests. May end the
  // process.
  std::function<void()> between_parts;
};

// Requests of one sink to one bucket. Every call returns at once and gives its outcome to `done` exactly
// once, on an unspecified thread. Thread-safe.
class ObjectStore {
 public:
  template <class T>
  using Done = UniqueFunction<void(Outcome<T>)>;

  virtual ~ObjectStore() = default;
  // `body` lives until `done`. Above the multipart threshold it goes up in 16 MiB parts. On success the
  // object is durable in the store and its content is `body`.
  virtual void put(std::string key, std::shared_ptr<const Bytes> body, PutOptions options,
                   Done<PutDone> done) = 0;
  // nullopt inside the value: there is no such key. An object above `bytes_max` is a body failure.
  virtual void get(std::string key, std::uint64_t bytes_max, Done<std::optional<Bytes>> done) = 0;
  // Size, or nullopt when there is no such key.
  virtual void head(std::string key, Done<std::optional<std::uint64_t>> done) = 0;
  // Keys that start with `prefix` and are above `start_after`, in key order, at most `max_keys` (1..1000).
  virtual void list(std::string prefix, std::string start_after, int max_keys, Done<Listing> done) = 0;
  // Ends requests in flight with `cancelled` and refuses further ones likewise (HD-13). Idempotent.
  virtual void cancel() = 0;
  // Lets the next requests through again.
  virtual void resume() = 0;
  // Ends the requests in flight whose key (a listing's prefix) starts with one of `prefixes`, with
  // `cancelled`; later ones pass. A store that cannot tell them apart ends all of them.
  virtual void cancel_keys(const std::vector<std::string>& /*prefixes*/) {
    cancel();
    resume();
  }
};

enum class Sse : std::uint8_t { off, aes256, aws_kms };

// One attempt of one request, for the counters by `op` and `code` (s3-sink.md 17.5).
struct Attempt {
  std::string_view op;  // `put`, `multipart_create`, `multipart_part`, `multipart_complete`,
                        // `multipart_abort`, `head`, `get`, `list`; a literal
  int status = 0;       // HTTP, 0 = no answer
};

struct ClientSettings {
  std::string endpoint;  // http(s)://host[:port], no path
  std::string region;
  std::string bucket;
  std::string access_key;
  std::string secret_key;
  bool path_style = false;
  Sse sse = Sse::off;
  std::string sse_kms_key_id;
  std::uint64_t multipart_threshold_bytes = 64ULL << 20;
  int requests_in_flight_max = 16;       // of this client
  std::shared_ptr<RequestCap> node_cap;  // of all clients of the node (HD-6); null = none
  std::string user_agent = "queen-s3";
  // A PEM file trusted beside the system's store (`SSL_CERT_FILE`), empty = none. Certificates are always
  // checked.
  std::string ca_file;
  // Called on the client's thread for every attempt; must be short.
  std::function<void(const Attempt&)> on_attempt;
  // The second of every wait between attempts, and how long no byte may pass before a request is given up:
  // µs, tests make them short.
  std::int64_t retry_unit_us = 1'000'000;
  std::int64_t progress_timeout_us = 30'000'000;
};

// The real one: libcurl, HTTP/1.1, signed with SigV4 on every attempt, pooled connections, one thread of its
// own named `queen-s3-http`. Attempts, waits and error classes: s3-sink.md 17.5 with HD-4, HD-5, HD-6.
// Destroying it ends requests in flight as cancelled; not from inside a `done`. `clock` must move with real
// time: it dates the signatures and times the waits. Proxies come from the usual environment variables, which
// libcurl reads. `clock` and `random` outlive the client.
std::unique_ptr<ObjectStore> make_s3_client(ClientSettings settings, Clock& clock, Random& random,
                                            Logger log);

}  // namespace queen::s3
