// Which node runs which queue: fair share, turns before a claim, and giving one queue back (s3-sink.md 6.3
// to 6.5). Decisions only: no I/O, no clock of its own. Times in µs of the monotonic clock.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace queen::sink {

// Tasks that run a queue or are about to claim one, in the order in which they came. A task is counted before
// it compares, so that two tasks of one node cannot pass on the same count. On one executor.
class ClaimLine {
 public:
  class Place {
   public:
    Place() = default;
    Place(ClaimLine* line, std::uint64_t ticket) : line_(line), ticket_(ticket) {}
    Place(Place&& other) noexcept : line_(std::exchange(other.line_, nullptr)), ticket_(other.ticket_) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(line_, other.line_);
      std::swap(ticket_, other.ticket_);
      return *this;
    }
    ~Place() {
      if (line_ != nullptr) line_->tickets_.erase(ticket_);
    }
    // Places taken before this one and still held.
    std::size_t ahead() const { return line_ == nullptr ? 0 : line_->before(ticket_); }

   private:
    ClaimLine* line_ = nullptr;
    std::uint64_t ticket_ = 0;
  };
  Place take() {
    tickets_.insert(++last_);
    return Place(this, last_);
  }
  std::size_t size() const { return tickets_.size(); }

 private:
  std::size_t before(std::uint64_t ticket) const;
  std::set<std::uint64_t> tickets_;
  std::uint64_t last_ = 0;
};

// ceil(queues / max(nodes, 1)).
std::size_t fair_share(std::size_t queues, std::size_t nodes);

// When a task may claim a row that it found free.
struct Turn {
  std::int64_t found_free_us = 0;
  std::int64_t jitter_us = 0;
  std::int64_t lease_ttl_us = 0;
  std::size_t node_load = 0;                    // queues that this node runs or claims, ahead of this one
  std::size_t sink_load = 0;                    // the same of this sink alone
  std::size_t share = 1;                        // of this sink on this node
  std::optional<std::int64_t> gave_back_at_us;  // this node gave this very queue back then; two TTLs later
                                                // that is forgotten
};
std::int64_t claim_at_us(const Turn& turn);
// The wait before a row held by another node is looked at again.
std::int64_t look_again_us(std::int64_t lease_ttl_us, std::size_t held, std::size_t share,
                           std::int64_t jitter_us);

struct HeldQueue {
  std::string name;
  std::uint64_t buffered = 0;
};

// Gives one queue at a time back while the node holds more than its share for a whole TTL.
class GiveBack {
 public:
  explicit GiveBack(std::int64_t lease_ttl_us) : ttl_us_(lease_ttl_us) {}
  // A decision round; gives the queue whose task is to drain and release now, if any.
  std::optional<std::string> round(std::int64_t now_us, std::size_t share,
                                   const std::vector<HeldQueue>& held);
  void on_released(const std::string& queue, std::int64_t now_us);
  // Another node holds the queue.
  void on_held_elsewhere(const std::string& queue);
  // The task of the queue ended before it could give it back.
  void on_abandoned(const std::string& queue);
  const std::optional<std::string>& giving() const { return giving_; }

 private:
  std::int64_t ttl_us_;
  std::optional<std::string> giving_;
  std::optional<std::int64_t> released_at_us_;
  std::optional<std::int64_t> above_since_us_;
};

}  // namespace queen::sink
