// Finding the offset of a message by the hash of its transaction id, in the append rows around a cursor.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "machine/detail/ack.h"
#include "machine/detail/appends.h"

namespace queen::machine::detail {
namespace {

constexpr std::int64_t kRecognisedSecondsMin = 900;
constexpr std::int64_t kRecognisedMessages = 65'536;
// How far one ack looks: ahead of a cursor without a lease, and back from it. A batch is far shorter.
constexpr std::int64_t kLookMessagesMax = 1 << 20;
// Looking back goes in growing steps: a repeat is nearly always the last ack's.
constexpr std::array<std::int64_t, 4> kLookBack = {1'024, 16'384, kRecognisedMessages, kLookMessagesMax};

struct HashOf {
  std::size_t operator()(const Hash128& hash) const { return hash.prefix(); }
};

// Visits the hashes of the messages in [from, to] in offset order until `visit` gives false.
template <class Visit>
void each_hash(const Cycle& cycle, const AckTarget& target, std::int64_t from, std::int64_t to,
               const Visit& visit) {
  each_append(cycle.view, target.command.cold, target.pid, from, to, [&](const SeenAppend& append) {
    const auto known = static_cast<std::int64_t>(append.hashes.size() / 16);
    const std::int64_t last = std::min({to, append.end, append.base + known - 1});
    for (std::int64_t offset = std::max(from, append.base); offset <= last; ++offset)
      if (!visit(offset, append.hash(offset), append.created_at)) return false;
    return true;
  });
}

}  // namespace

std::optional<ColdAsk> cold_part(const AckTarget& target, std::int64_t from, std::int64_t to) {
  ColdAsk ask;
  ask.pid = target.pid;
  ask.queue_id = queue_id(target.tenant, target.partition.queue);
  ask.from = std::max(from, target.partition.txns_start);
  ask.to = std::min(to, target.partition.rows_start - 1);
  if (ask.from > ask.to) return std::nullopt;
  return ask;
}

std::vector<std::optional<std::int64_t>> resolve_between(const Cycle& cycle, const AckTarget& target,
                                                         std::int64_t from, std::int64_t to) {
  std::vector<std::optional<std::int64_t>> out(target.items.size());
  // Positions in `out` by hash, in request order.
  struct Wanted {
    std::vector<std::size_t> positions;
    std::size_t next = 0;
  };
  std::unordered_map<Hash128, Wanted, HashOf> wanted;
  for (std::size_t i = 0; i < target.items.size(); ++i)
    wanted[target.command.items[target.items[i]].hash].positions.push_back(i);
  std::size_t left = out.size();
  to = std::min(to, from + kLookMessagesMax);
  each_hash(cycle, target, from, to, [&](std::int64_t offset, const Hash128& hash, std::int64_t) {
    const auto found = wanted.find(hash);
    if (found == wanted.end() || found->second.next == found->second.positions.size()) return true;
    out[found->second.positions[found->second.next++]] = offset;
    return --left > 0;
  });
  for (const auto& [hash, positions] : wanted)
    for (std::size_t i = positions.next; i > 0 && i < positions.positions.size(); ++i)
      out[positions.positions[i]] = out[positions.positions[i - 1]];
  return out;
}

std::optional<ColdAsk> cold_look_back(const AckTarget& target) {
  const std::int64_t committed = target.cursor.committed;
  return cold_part(target, committed - kRecognisedMessages + 1, committed);
}

std::vector<bool> finished_before(const Cycle& cycle, const AckTarget& target,
                                  const std::vector<std::size_t>& positions) {
  const store::QueueRow& queue = target.queue;
  const std::int64_t seconds = std::max<std::int64_t>(
      {queue.dedup_window_seconds, queue.completed_retention_seconds, kRecognisedSecondsMin});
  const std::int64_t since = cycle.now - seconds * kSecondUs;
  const std::int64_t committed = target.cursor.committed;
  std::int64_t to = committed;
  std::vector<bool> finished(target.items.size());
  std::unordered_multimap<Hash128, std::size_t, HashOf> wanted;
  for (const std::size_t position : positions)
    wanted.emplace(target.command.items[target.items[position]].hash, position);
  // One walk for all that the call names: it runs on the planner.
  for (const std::int64_t depth : kLookBack) {
    if (wanted.empty()) break;
    const std::int64_t from = std::max<std::int64_t>(committed - depth + 1, target.partition.rows_start);
    each_hash(cycle, target, from, to, [&](std::int64_t offset, const Hash128& seen, std::int64_t stamp) {
      if (stamp < since && committed - offset >= kRecognisedMessages) return true;
      const auto [first, last] = wanted.equal_range(seen);
      for (auto at = first; at != last; ++at) finished[at->second] = true;
      wanted.erase(first, last);
      return !wanted.empty();
    });
    to = from - 1;
    if (to < target.partition.rows_start) break;
  }
  return finished;
}

}  // namespace queen::machine::detail

namespace queen::machine {

void answer_looked_back(const AckCommand& ack, const ColdAsk& range, const ColdFacts& facts,
                        std::vector<std::size_t>& items, AckOutcome& outcome) {
  std::unordered_multimap<Hash128, std::size_t, detail::HashOf> wanted;
  for (const std::size_t item : items) wanted.emplace(ack.items[item].hash, item);
  for (auto at = facts.at(range.pid, range.from); at != facts.appends.end(); ++at) {
    const auto& [key, append] = *at;
    if (wanted.empty() || key.pid != range.pid || key.base > range.to) break;
    for (std::size_t i = 0; i + 16 <= append.hashes.size(); i += 16) {
      const std::int64_t offset = key.base + static_cast<std::int64_t>(i / 16);
      if (offset < range.from || offset > range.to) continue;
      Hash128 hash;
      std::copy_n(append.hashes.data() + i, 16, reinterpret_cast<char*>(hash.canonical.data()));
      const auto [first, last] = wanted.equal_range(hash);
      for (auto found = first; found != last; ++found) {
        AckItemOutcome& item = outcome.items[found->second];
        item.success = item.noop = true;
        item.error.clear();
      }
      wanted.erase(first, last);
    }
  }
  std::erase_if(items, [&](std::size_t item) { return outcome.items[item].success; });
}

}  // namespace queen::machine
