// Finds the first offset stamped at or above a time, with fetches of one record (s3-sink.md 9). No I/O: the
// caller makes the probes. Stamps never go back with the offset, so the search is exact.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sink/broker_port.h"

namespace queen::sink {

struct SeekBounds {
  std::uint64_t log_start = 0;
  std::int64_t last_offset = -1;
};

// Protocol: while !finished(): fetch request(), then on_answer(). A probe whose call fails is repeated by the
// caller (3 tries, 200 ms and 400 ms apart); after that give_up(). Not thread-safe.
class Seek {
 public:
  // `t` in µs; nothing stands for minus infinity, which is answered by log_start without a probe.
  Seek(std::string partition, SeekBounds bounds, std::optional<std::int64_t> t);

  bool finished() const { return state_ != State::probing; }
  // The answer; nothing while probing and after a failure (then the partition is read from its log start).
  std::optional<std::uint64_t> result() const;
  const std::string& failure() const { return failure_; }  // a sentence, after a failure
  // The next probe: one record. Only while !finished().
  FetchRequest request() const;
  void on_answer(const FetchedEntry& entry);
  void give_up(std::string why);
  int probes() const { return probes_; }
  // 2 × bits(n) + 8 for n retained records.
  int probes_max() const { return probes_max_; }

 private:
  enum class State : std::uint8_t { probing, found, failed };
  void choose();
  void narrow(const FetchedRecord& record);
  void out_of_range(const FetchedEntry& entry);

  std::string partition_;
  std::optional<std::int64_t> t_;
  std::int64_t floor_;      // log_start as last told
  std::int64_t head_;       // last offset + 1 as last told
  std::int64_t lo_, hi_;    // lo_ known below t (floor_ - 1: none), hi_ known at or above it
  bool has_lower_ = false;  // a record below t was seen
  int gallop_ = 0;          // n of the next gallop step
  std::int64_t probe_ = 0;
  int probes_ = 0, probes_max_ = 0;
  State state_ = State::probing;
  std::string failure_;
};

}  // namespace queen::sink
