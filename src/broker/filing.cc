#include "broker/filing.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

namespace queen::broker {
namespace {

// Beside its payload, what a dead letter adds to an entry.
constexpr std::uint64_t kLetterBytes = 256;
// Hashes of messages without rows that one call may take along.
constexpr std::uint64_t kColdBytesMax = 16ULL * ColdLog::kMessagesMax;

std::optional<Pid> parse_pid(const std::string& text) {
  Pid pid;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid.value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return pid;
}

bool may_file(const machine::AckItem& item, bool budget_left) {
  if (item.status == machine::AckStatus::dlq) return true;
  return item.status == machine::AckStatus::failed && !budget_left;
}

// One partition's items, by position in the command.
Filing fill_partition(Reads& reads, const Reads::Named& named, machine::AckCommand& ack,
                      const std::vector<std::size_t>& items, std::uint64_t& bytes_left) {
  std::multimap<std::uint64_t, std::size_t> wanted;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (named.offsets[i] && may_file(ack.items[items[i]], named.budget_left))
      wanted.emplace(*named.offsets[i], items[i]);
  }
  auto next = wanted.begin();
  while (next != wanted.end()) {
    const Messages read = reads.some(named.pid, named.queue_id, next->first, wanted.rbegin()->first);
    if (read.messages.empty()) return Filing::unreadable;
    for (const Message& message : read.messages) {
      for (; next != wanted.end() && next->first == message.offset; ++next) {
        machine::AckItem& item = ack.items[next->second];
        item.message_id = message.id;
        item.payload = message.null_payload ? Bytes("null") : Bytes(message.payload);
        const std::uint64_t size = item.payload->size() + kLetterBytes;
        if (size > bytes_left) return Filing::too_large;
        bytes_left -= size;
      }
      if (next != wanted.end() && next->first < message.offset)
        return Filing::unreadable;  // a hole where it was
    }
  }
  return Filing::ready;
}

// What is left of one call's bounds.
struct Budget {
  std::uint64_t payload_bytes = 0;
  std::uint64_t cold_bytes = kColdBytesMax;
};

Filing fill_group(Reads& reads, const std::string& tenant, machine::AckCommand& ack, Budget& left) {
  // All items, as the planner groups them: the k-th naming of an id means its k-th message.
  std::map<std::pair<std::uint64_t, std::string_view>, std::vector<std::size_t>> by_target;
  for (std::size_t i = 0; i < ack.items.size(); ++i) {
    if (const auto pid = parse_pid(ack.items[i].partition_id))
      by_target[{pid->value, ack.items[i].lease_id}].push_back(i);
  }
  for (const auto& [target, items] : by_target) {
    const bool files =
        std::any_of(items.begin(), items.end(), [&](std::size_t i) { return may_file(ack.items[i], false); });
    if (!files) continue;
    std::vector<Hash128> hashes;
    hashes.reserve(items.size());
    for (const std::size_t item : items) hashes.push_back(ack.items[item].hash);
    auto named = reads.named(tenant, Pid{target.first}, ack.group, hashes);
    if (!named) return named.error().code == Errc::full ? Filing::too_large : Filing::unreadable;
    if (!*named) continue;
    const Filing filing = fill_partition(reads, **named, ack, items, left.payload_bytes);
    if (filing != Filing::ready) return filing;
    machine::ColdFacts& cold = (*named)->cold;
    for (const auto& [key, append] : cold.appends) {
      if (append.hashes.size() > left.cold_bytes) return Filing::too_large;
      left.cold_bytes -= append.hashes.size();
    }
    ack.cold.appends.merge(cold.appends);
    ack.cold.covered.insert(ack.cold.covered.end(), cold.covered.begin(), cold.covered.end());
  }
  return Filing::ready;
}

}  // namespace

Filing fill_payloads(Reads& reads, const std::string& tenant, std::span<machine::AckCommand> acks,
                     std::uint64_t bytes_max) {
  Budget left{bytes_max};
  for (machine::AckCommand& ack : acks) {
    const Filing filing = fill_group(reads, tenant, ack, left);
    if (filing != Filing::ready) return filing;
  }
  return Filing::ready;
}

}  // namespace queen::broker
