// The real client against the recording server, with its calls made blocking.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "recording_server.h"
#include "s3/digests.h"
#include "s3/object_store.h"

namespace queen::s3 {

inline std::string error_xml(std::string_view code, std::string_view more = "") {
  return "<?xml version=\"1.0\"?>\n<Error><Code>" + std::string(code) +
         "</Code><Message>it said &quot;no&quot;</Message>" + std::string(more) +
         "<RequestId>REQ7</RequestId></Error>";
}

inline ServerReply etag_reply(const SeenRequest& seen) {
  return {200, {{"ETag", '"' + hex_lower(md5_raw(seen.body)) + '"'}}, ""};
}

inline ClientSettings test_settings(const RecordingServer& server) {
  ClientSettings settings;
  settings.endpoint = server.endpoint();
  settings.region = "eu-test-1";
  settings.bucket = "bkt";
  settings.access_key = "AK";
  settings.secret_key = "hush-hush";
  settings.path_style = true;
  settings.retry_unit_us = 2'000;
  return settings;
}

class TestClient {
 public:
  explicit TestClient(ClientSettings settings)
      : store(make_s3_client(std::move(settings), clock_, random_, Logger(null_log(), "s3"))) {}

  Outcome<PutDone> put(std::string key, Bytes body, PutOptions options = {"text/plain", nullptr}) {
    return wait<PutDone>([&](auto done) {
      store->put(std::move(key), std::make_shared<const Bytes>(std::move(body)), std::move(options),
                 std::move(done));
    });
  }
  Outcome<std::optional<Bytes>> get(std::string key, std::uint64_t bytes_max = 1 << 20) {
    return wait<std::optional<Bytes>>(
        [&](auto done) { store->get(std::move(key), bytes_max, std::move(done)); });
  }
  Outcome<std::optional<std::uint64_t>> head(std::string key) {
    return wait<std::optional<std::uint64_t>>(
        [&](auto done) { store->head(std::move(key), std::move(done)); });
  }
  Outcome<Listing> list(std::string prefix, std::string start_after = "", int max_keys = 1000) {
    return wait<Listing>([&](auto done) {
      store->list(std::move(prefix), std::move(start_after), max_keys, std::move(done));
    });
  }

  // Calls `begin` with a Done and gives the future of its outcome.
  template <class T, class Begin>
  static std::future<Outcome<T>> future_of(Begin begin) {
    std::promise<Outcome<T>> promise;
    auto future = promise.get_future();
    begin(ObjectStore::Done<T>([promise = std::move(promise)](Outcome<T> outcome) mutable {
      promise.set_value(std::move(outcome));
    }));
    return future;
  }

 private:
  template <class T, class Begin>
  static Outcome<T> wait(Begin begin) {
    return future_of<T>(std::move(begin)).get();
  }

  SystemClock clock_;
  SystemRandom random_;

 public:
  std::unique_ptr<ObjectStore> store;  // ends before the clock
};

}  // namespace queen::s3
