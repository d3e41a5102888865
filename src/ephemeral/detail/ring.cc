#include "ephemeral/detail/ring.h"

#include <algorithm>

namespace queen::ephemeral::detail {

void Ring::append(Stored message) {
  bytes_ += static_cast<std::int64_t>(message.payload->size());
  messages_.push_back(std::move(message));
}

void Ring::end_lease(Cursor& cursor, std::uint64_t seq, Out& out) {
  if (out.lease_until == 0) return;
  leases_.erase({out.lease_until, this, &cursor, seq});
  out.lease_until = 0;
}

void Ring::take(Cursor& cursor, std::uint64_t count, std::int64_t lease_until, std::vector<Given>& given) {
  for (; count > 0 && available(cursor) > 0; --count) {
    std::uint64_t seq = cursor.next;
    if (cursor.again.empty()) {
      ++cursor.next;
    } else {
      seq = *cursor.again.begin();
      cursor.again.erase(cursor.again.begin());
    }
    Out& out = cursor.out[seq];
    out.expired = false;
    given.push_back({seq, ++out.deliveries, at(seq).payload});
    if (lease_until == 0) {
      cursor.out.erase(seq);
      continue;
    }
    out.lease_until = lease_until;
    leases_.emplace(lease_until, this, &cursor, seq);
  }
}

Settled Ring::settle(Cursor& cursor, std::uint64_t seq, Verdict verdict, std::uint32_t failures_max) {
  const auto found = cursor.out.find(seq);
  if (found == cursor.out.end()) return Settled::unknown;
  Out& out = found->second;
  if (out.lease_until == 0 && !out.expired) return Settled::unknown;
  end_lease(cursor, seq, out);
  // An expired lease has spent its attempt already.
  if (verdict == Verdict::failed && !out.expired) ++out.failures;
  const bool given_up = verdict == Verdict::failed && out.failures >= failures_max;
  if (verdict == Verdict::done || given_up) {
    cursor.again.erase(seq);
    cursor.out.erase(found);
    return given_up ? Settled::given_up : Settled::acked;
  }
  out.expired = false;
  cursor.again.insert(seq);
  return Settled::redelivered;
}

bool Ring::expire(Cursor& cursor, std::uint64_t seq, std::uint32_t failures_max) {
  const auto found = cursor.out.find(seq);
  Out& out = found->second;
  end_lease(cursor, seq, out);
  if (++out.failures >= failures_max) {
    cursor.out.erase(found);
    return false;
  }
  out.expired = true;
  cursor.again.insert(seq);
  return true;
}

Stored Ring::drop_front(bool skip) {
  const std::uint64_t seq = head_;
  for (auto& [group, cursor] : cursors_) {
    if (cursor.next == seq) {
      ++cursor.next;
      if (skip) ++cursor.skipped;
    }
    const auto found = cursor.out.find(seq);
    if (found == cursor.out.end()) continue;
    end_lease(cursor, seq, found->second);
    cursor.again.erase(seq);
    cursor.out.erase(found);
  }
  Stored gone = std::move(messages_.front());
  messages_.pop_front();
  ++head_;
  bytes_ -= static_cast<std::int64_t>(gone.payload->size());
  return gone;
}

bool Ring::front_passed() const {
  if (cursors_.empty() || messages_.empty()) return false;
  return std::all_of(cursors_.begin(), cursors_.end(),
                     [this](const auto& one) { return one.second.settled_below() > head_; });
}

void Ring::clear() {
  for (auto& [group, cursor] : cursors_) {
    for (auto& [seq, out] : cursor.out) end_lease(cursor, seq, out);
    cursor.out.clear();
    cursor.again.clear();
    cursor.next = tail();
  }
  head_ = tail();
  messages_.clear();
  bytes_ = 0;
}

}  // namespace queen::ephemeral::detail
