// One partition of an in-memory queue: its messages, and how far each group is. No clock, no lock.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace queen::ephemeral::detail {

using Payload = std::shared_ptr<const std::string>;

struct Stored {
  Payload payload;
  std::int64_t at_us = 0;   // of its push, monotonic
  std::uint64_t order = 0;  // over all rings of the engine
};

// A message that went to a group and is not settled.
struct Out {
  std::uint32_t deliveries = 0;
  std::uint32_t failures = 0;    // what the retry limit counts: expired leases and `failed`
  std::int64_t lease_until = 0;  // 0: it waits for its redelivery
  bool expired = false;          // its lease ran out: until it is given anew, an ack still counts
};

struct Cursor {
  std::uint64_t next = 0;            // the first message that was never given
  std::map<std::uint64_t, Out> out;  // by sequence number
  std::set<std::uint64_t> again;     // of `out`: those that wait for redelivery
  std::uint64_t skipped = 0;         // evicted before they were given
  std::uint64_t settled_below() const { return out.empty() ? next : std::min(next, out.begin()->first); }
};

class Ring;
// Leases of a queue, the first to end first.
using LeaseSet = std::set<std::tuple<std::int64_t, Ring*, Cursor*, std::uint64_t>>;

struct Given {
  std::uint64_t seq = 0;
  std::uint32_t attempts = 0;
  Payload payload;
};
enum class Verdict : std::uint8_t { done, retry, failed };
enum class Settled : std::uint8_t { acked, given_up, redelivered, unknown };

class Ring {
 public:
  // `epoch` names this incarnation; `leases` outlives the ring.
  Ring(std::string name, std::uint64_t epoch, LeaseSet& leases)
      : name_(std::move(name)), epoch_(epoch), leases_(leases) {}

  const std::string& name() const { return name_; }
  std::uint64_t epoch() const { return epoch_; }
  bool empty() const { return messages_.empty(); }
  std::size_t length() const { return messages_.size(); }
  std::int64_t bytes() const { return bytes_; }  // of payloads
  const Stored& front() const { return messages_.front(); }
  std::map<std::string, Cursor, std::less<>>& cursors() { return cursors_; }
  const std::map<std::string, Cursor, std::less<>>& cursors() const { return cursors_; }

  void append(Stored message);
  // Starts at the oldest message in memory when it is new.
  Cursor& cursor(std::string_view group) {
    const auto at = cursors_.find(group);
    if (at != cursors_.end()) return at->second;
    return cursors_.emplace(group, Cursor{head_, {}, {}, 0}).first->second;
  }
  Cursor* find(std::string_view group) {
    const auto at = cursors_.find(group);
    return at != cursors_.end() ? &at->second : nullptr;
  }
  // What the group can be given now.
  std::uint64_t available(const Cursor& cursor) const { return cursor.again.size() + tail() - cursor.next; }
  // What it has not settled; of a group without a cursor: everything.
  std::uint64_t pending(const Cursor* cursor) const {
    return cursor == nullptr ? length() : cursor->out.size() + tail() - cursor->next;
  }

  // Gives up to `count` messages, redeliveries first; leased until `lease_until`, or settled when it is 0.
  void take(Cursor& cursor, std::uint64_t count, std::int64_t lease_until, std::vector<Given>& out);
  // Settles a message whose lease is there. After `failures_max` failures the group gives it up.
  Settled settle(Cursor& cursor, std::uint64_t seq, Verdict verdict, std::uint32_t failures_max);
  // A lease of leases_ has run out. False when the group gave the message up.
  bool expire(Cursor& cursor, std::uint64_t seq, std::uint32_t failures_max);
  // Drops the oldest message, whoever has read it. `skip`: groups that had not count it.
  Stored drop_front(bool skip);
  // Whether every group is done with the oldest message. Without a group nothing is passed.
  bool front_passed() const;
  // All messages and leases go; every cursor stands at the end.
  void clear();

 private:
  std::uint64_t tail() const { return head_ + messages_.size(); }
  const Stored& at(std::uint64_t seq) const { return messages_[seq - head_]; }
  void end_lease(Cursor& cursor, std::uint64_t seq, Out& out);

  const std::string name_;
  const std::uint64_t epoch_;
  LeaseSet& leases_;
  std::deque<Stored> messages_;
  std::uint64_t head_ = 0;  // sequence number of the first of them
  std::int64_t bytes_ = 0;
  std::map<std::string, Cursor, std::less<>> cursors_;  // by group
};

}  // namespace queen::ephemeral::detail
