#include "s3/request_cap.h"

#include <utility>

namespace queen::s3 {

bool RequestCap::try_take() {
  const std::lock_guard lock(mutex_);
  if (free_ == 0) {
    missed_ = true;
    return false;
  }
  --free_;
  return true;
}

void RequestCap::give_back() {
  const std::lock_guard lock(mutex_);
  ++free_;
  if (!std::exchange(missed_, false)) return;
  for (const auto& [id, wake] : listeners_) wake();
}

std::uint64_t RequestCap::listen(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  listeners_.emplace(++last_listener_, std::move(wake));
  return last_listener_;
}

void RequestCap::forget(std::uint64_t listener) {
  const std::lock_guard lock(mutex_);
  listeners_.erase(listener);
}

}  // namespace queen::s3
