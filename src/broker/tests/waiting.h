// Waits in a test for what a broker answers on a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/unique_function.h"

namespace queen::broker {

// One answer. Outlives the callback.
template <class T>
class Waiting {
 public:
  UniqueFunction<void(T)> callback() {
    return [this](T value) {
      std::lock_guard lock(mutex_);
      value_.emplace(std::move(value));
      ready_.notify_all();
    };
  }
  // Blocks until it is there, 30 s at most.
  T get() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(ready_.wait_for(lock, std::chrono::seconds(30), [this] { return value_.has_value(); }));
    return std::move(*value_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::optional<T> value_;
};

}  // namespace queen::broker
