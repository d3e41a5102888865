#include "sink/seek.h"

#include <algorithm>
#include <bit>

#include "base/invariant.h"

namespace queen::sink {
namespace {

constexpr std::uint64_t kProbeBytes = 4096;  // of one record; the broker delivers it whatever its size

}  // namespace

Seek::Seek(std::string partition, SeekBounds bounds, std::optional<std::int64_t> t)
    : partition_(std::move(partition)),
      t_(t),
      floor_(static_cast<std::int64_t>(bounds.log_start)),
      head_(bounds.last_offset + 1),
      lo_(floor_ - 1),
      hi_(head_) {
  const auto retained = static_cast<std::uint64_t>(std::max<std::int64_t>(head_ - floor_, 0));
  probes_max_ = 2 * static_cast<int>(std::bit_width(retained)) + 8;
  if (!t_) hi_ = floor_;
  choose();
}

std::optional<std::uint64_t> Seek::result() const {
  if (state_ != State::found) return std::nullopt;
  return static_cast<std::uint64_t>(std::max(hi_, floor_));
}

FetchRequest Seek::request() const {
  INVARIANT(state_ == State::probing, "a probe of a finished seek in {}", partition_);
  return FetchRequest{partition_, static_cast<std::uint64_t>(probe_), kProbeBytes};
}

void Seek::on_answer(const FetchedEntry& entry) {
  INVARIANT(state_ == State::probing, "an answer for a finished seek in {}", partition_);
  ++probes_;
  if (!entry.error.empty() && entry.error != kErrorOutOfRange)
    return give_up("the probe answered " + entry.error);
  if (entry.error == kErrorOutOfRange) {
    out_of_range(entry);
    return choose();
  }
  // A valid answer without a record leaves the bracket as it is, so choose() would gallop on past an offset
  // that was never looked at; the same probe goes out again instead.
  if (entry.records.empty()) {
    if (probes_ >= probes_max_) give_up("no answer within the probes allowed");
    return;
  }
  for (const FetchedRecord& record : entry.records) narrow(record);
  choose();
}

void Seek::give_up(std::string why) {
  state_ = State::failed;
  failure_ = "seek in " + partition_ + ": " + std::move(why);
}

void Seek::narrow(const FetchedRecord& record) {
  const auto offset = static_cast<std::int64_t>(record.offset);
  if (record.ts >= *t_) {
    hi_ = std::min(hi_, offset);
    return;
  }
  lo_ = std::max(lo_, offset);
  has_lower_ = true;
}

void Seek::out_of_range(const FetchedEntry& entry) {
  const auto log_start = static_cast<std::int64_t>(entry.log_start);
  if (log_start > floor_) {
    floor_ = log_start;
    lo_ = std::max(lo_, floor_ - 1);
    return;
  }
  head_ = std::min(head_, static_cast<std::int64_t>(entry.high_watermark));
  hi_ = std::min(hi_, head_);
}

// Gallops back from the head while nothing below t is known: most seeks want something recent. Then bisects.
void Seek::choose() {
  if (hi_ <= floor_ || lo_ + 1 >= hi_) {
    state_ = State::found;
    return;
  }
  if (probes_ >= probes_max_) return give_up("the bracket did not close within the probes allowed");
  if (has_lower_) {
    probe_ = lo_ + (hi_ - lo_) / 2;
    return;
  }
  const std::int64_t step = std::int64_t{1} << std::min(gallop_, 61);
  ++gallop_;
  probe_ = std::clamp(head_ - step, floor_, hi_ - 1);
}

}  // namespace queen::sink
