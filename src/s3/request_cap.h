// How many requests to S3 a node has in flight at once, over all its clients (HD-6).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace queen::s3 {

// Above what one client may have in flight, so that a bucket that hangs cannot take every place of the node.
inline constexpr int kNodeRequestsMax = 32;

// Places that clients share. Thread-safe.
class RequestCap {
 public:
  explicit RequestCap(int places) : free_(places) {}
  RequestCap(const RequestCap&) = delete;
  RequestCap& operator=(const RequestCap&) = delete;

  // False: none is free; everybody who listens is told when one is.
  bool try_take();
  void give_back();
  // `wake` is called under a lock, on any thread, when a place comes free that somebody missed. Returns a
  // number for forget(), after which it is never called again.
  std::uint64_t listen(std::function<void()> wake);
  void forget(std::uint64_t listener);

 private:
  std::mutex mutex_;  // guards everything below; a leaf but for the wakes
  int free_;
  bool missed_ = false;
  std::uint64_t last_listener_ = 0;
  std::map<std::uint64_t, std::function<void()>> listeners_;
};

}  // namespace queen::s3
