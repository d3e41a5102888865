#include "lock_book.h"

#include <algorithm>
#include <charconv>

namespace queen::sim {

void LockBook::take_token(const Permit& permit, std::uint64_t token, Times times) {
  for (const Given& given : tokens_[permit])
    if (given.token == token || (given.returned_us < times.called_us && given.token > token))
      story_.violate("tokens grow", "{}#{}: {} after {}", permit.lock, permit.slot, token, given.token);
  tokens_[permit].push_back({token, times.returned_us, times.after_us});
}

std::int64_t LockBook::token_given(const Permit& permit, std::uint64_t token) const {
  const auto& given = tokens_.at(permit);
  return std::ranges::find(given, token, &Given::token)->after_us;
}

LockBook::HoldId LockBook::granted(const Permit& permit, const std::string& owner, std::uint64_t token,
                                   std::int64_t ttl_us, Times times) {
  take_token(permit, token, times);
  auto& holds = holds_[permit];
  holds.push_back({owner, times.after_us, times.before_us + ttl_us});
  return holds.size() - 1;
}

void LockBook::renewed(const Permit& permit, HoldId id, std::uint64_t token, std::int64_t ttl_us,
                       Times times) {
  take_token(permit, token, times);
  holds_[permit].at(id).to_us = times.before_us + ttl_us;
}

void LockBook::maybe_renewed(const Permit& permit, HoldId id, std::int64_t ttl_us, std::int64_t stamp_us) {
  Hold& hold = holds_[permit].at(id);
  hold.to_us = std::min(hold.to_us, stamp_us + ttl_us);
}

void LockBook::lost(const Permit& permit, HoldId id, Times times) {
  const Hold& hold = holds_[permit].at(id);
  if (hold.from_us <= times.before_us && times.after_us <= hold.to_us)
    story_.violate("a permit is held for its lifetime", "{}#{} of {}: sure in [{}, {}], lost in ({}, {}]",
                   permit.lock, permit.slot, hold.owner, hold.from_us, hold.to_us, times.before_us,
                   times.after_us);
}

void LockBook::releasing(const Permit& permit, HoldId id, std::int64_t stamp_us) {
  Hold& hold = holds_[permit].at(id);
  hold.to_us = std::min(hold.to_us, stamp_us);
}

void LockBook::check() {
  for (auto& [permit, holds] : holds_) {
    for (std::size_t i = 0; i < holds.size(); ++i) {
      for (std::size_t j = i + 1; j < holds.size(); ++j) {
        const Hold &one = holds[i], &other = holds[j];
        const std::int64_t from = std::max(one.from_us, other.from_us), to = std::min(one.to_us, other.to_us);
        if (from < to)
          story_.violate("one holder at a time", "{}#{}: {} in [{}, {}] and {} in [{}, {}]", permit.lock,
                         permit.slot, one.owner, one.from_us, one.to_us, other.owner, other.from_us,
                         other.to_us);
      }
    }
  }
}

std::string LockBook::guarded_id(const Permit& permit, std::uint64_t token, std::uint64_t unique) {
  return fmt::format("{}#{}@{}-{}", permit.lock, permit.slot, token, unique);
}

void LockBook::check_fences(const std::map<PartitionName, PartitionRead>& logs, const std::string& queue) {
  for (const auto& [where, log] : logs) {
    if (where.queue != queue) continue;
    std::map<std::string, std::uint64_t> newest;
    for (const auto& record : log.records) {
      const auto at = record.transaction_id.find('@');
      std::uint64_t token = 0;
      std::from_chars(record.transaction_id.data() + at + 1,
                      record.transaction_id.data() + record.transaction_id.size(), token);
      auto& last = newest[record.transaction_id.substr(0, at)];
      if (token < last)
        story_.violate("a guard fences", "{}/{} offset {}: {} behind token {}", where.queue, where.partition,
                       record.offset, record.transaction_id, last);
      last = token;
    }
  }
}

}  // namespace queen::sim
