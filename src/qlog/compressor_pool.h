// zstd contexts that are kept: making one costs more than compressing a small payload.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "qlog/record.h"

namespace queen::qlog {

// As many contexts as there were calls at one time. Thread-safe.
class CompressorPool {
 public:
  // PayloadCompressor::compress on a free context.
  std::optional<Bytes> compress(BytesView raw, int level) {
    if (level == 0 || raw.size() < kCompressFromBytes) return std::nullopt;
    auto compressor = take();
    auto out = compressor->compress(raw, level);
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(compressor));
    return out;
  }

 private:
  std::unique_ptr<PayloadCompressor> take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<PayloadCompressor>();
    auto out = std::move(free_.back());
    free_.pop_back();
    return out;
  }
  std::mutex mutex_;
  std::vector<std::unique_ptr<PayloadCompressor>> free_;
};

}  // namespace queen::qlog
