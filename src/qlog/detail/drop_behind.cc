#include "qlog/detail/drop_behind.h"

#include <algorithm>

namespace queen::qlog::detail {
namespace {

// Smaller pieces are not worth a call: the kernel drops whole pages only, and a part of one never.
constexpr std::uint64_t kPieceMin = 256ULL << 10;
constexpr std::uint64_t kPage = 4096;

}  // namespace

void DropBehind::synced(std::uint32_t file_id, std::uint64_t end) {
  if (parts_.empty() || parts_.back().file_id != file_id) parts_.push_back({file_id, 0, 0});
  Part& part = parts_.back();
  if (end <= part.synced) return;
  kept_ += end - part.synced;
  part.synced = end;
}

DropBehind::Range DropBehind::take(std::uint64_t distance) {
  if (parts_.empty() || kept_ <= distance) return {};
  Part& part = parts_.front();
  const bool whole = parts_.size() > 1 && kept_ - distance >= part.synced - part.dropped;
  std::uint64_t bytes = std::min(kept_ - distance, part.synced - part.dropped);
  if (!whole) {
    bytes -= (part.dropped + bytes) % kPage;
    if (bytes < kPieceMin || bytes > part.synced) return {};
  }
  const Range range{part.file_id, part.dropped, bytes};
  part.dropped += bytes;
  kept_ -= bytes;
  if (whole) parts_.pop_front();
  return range;
}

}  // namespace queen::qlog::detail
