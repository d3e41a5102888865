#include "broker/cold_log.h"

#include <algorithm>
#include <array>
#include <vector>

namespace queen::broker {
namespace {

using machine::ColdAppend;
using machine::ColdAsk;
using machine::ColdFacts;

constexpr std::size_t kPlacesPerLookUp = 256;
// Looking back goes in growing steps: a repeat is nearly always the last ack's.
constexpr std::array<std::int64_t, 3> kLookBackSteps = {1'024, 16'384, 65'536};

}  // namespace

Status ColdLog::read(std::span<const ColdAsk> asks, ColdFacts& facts) const {
  std::int64_t messages_left = kMessagesMax;
  for (const ColdAsk& ask : asks) {
    const bool appends = ask.kind == ColdAsk::Kind::appends;
    Status status = appends ? read_appends(ask, messages_left, facts) : read_start(ask, facts);
    if (!status) return status;
  }
  return {};
}

Status ColdLog::read_start(const ColdAsk& ask, ColdFacts& facts) const {
  const LogId log = logs_.layout().of_partition(LogId{ask.queue_id}, ask.pid);
  const auto end = static_cast<std::uint64_t>(ask.to + 1);
  const auto found =
      logs_.first_stamped_at_or_after(log, ask.pid, static_cast<std::uint64_t>(ask.from), end, ask.since_us);
  if (!found) return found.error();
  machine::ColdStart start{ask, static_cast<std::int64_t>(*found), 0};
  if (*found < end) {
    const auto place = logs_.locate(log, ask.pid, *found, 1);
    if (!place) return place.error();
    if (!place->empty()) start.stamp = place->front().created_at;
  }
  facts.starts.push_back(start);
  return {};
}

Status ColdLog::read_appends(const ColdAsk& ask, std::int64_t& messages_left, ColdFacts& facts) const {
  const LogId log = logs_.layout().of_partition(LogId{ask.queue_id}, ask.pid);
  std::uint64_t bytes = 0;
  std::int64_t next = ask.from;
  while (next <= ask.to && (ask.bytes_max == 0 || bytes < ask.bytes_max)) {
    const auto places = logs_.locate(log, ask.pid, static_cast<std::uint64_t>(next), kPlacesPerLookUp);
    if (!places) return places.error();
    if (places->empty()) break;
    for (const qlog::AppendPlace& place : *places) {
      const auto base = static_cast<std::int64_t>(place.base_offset);
      if (base > ask.to || (ask.bytes_max > 0 && bytes >= ask.bytes_max)) break;
      if (ask.bytes_max == 0) messages_left -= place.count;
      if (messages_left < 0) return Error{Errc::full, "too many old messages would have to be looked at"};
      ColdAppend append{static_cast<std::int64_t>(place.end) - 1, place.created_at, place.stored_bytes, {}};
      auto read = logs_.hashes_at(log, ask.pid, place.base_offset);
      if (!read && read.error().code != Errc::corrupt) return read.error();
      if (read && *read) {
        append.raw_bytes = (*read)->raw_bytes;
        if (ask.bytes_max == 0) append.hashes = std::move((*read)->hashes);
      }
      bytes += append.raw_bytes;
      facts.appends.insert_or_assign({ask.pid, base}, std::move(append));
      next = static_cast<std::int64_t>(place.end);
    }
    if (places->size() < kPlacesPerLookUp || static_cast<std::int64_t>(places->back().base_offset) > ask.to)
      break;
  }
  const bool whole = ask.bytes_max == 0 || bytes < ask.bytes_max;
  facts.covered.push_back({ask.pid, ask.from, whole ? ask.to : std::min(ask.to, next - 1)});
  return {};
}

Status ColdLog::look_back(const machine::AckCommand& ack, machine::AckOutcome& outcome) const {
  for (const auto& look_back : outcome.look_back) {
    std::vector<std::size_t> items = look_back.items;
    const ColdAsk& range = look_back.range;
    std::int64_t to = range.to;
    for (const std::int64_t step : kLookBackSteps) {
      if (items.empty() || to < range.from) break;
      ColdAsk part = range;
      part.from = std::max(range.from, range.to - step + 1);
      part.to = to;
      ColdFacts facts;
      if (Status status = read({&part, 1}, facts); !status) return status;
      machine::answer_looked_back(ack, part, facts, items, outcome);
      to = part.from - 1;
    }
  }
  return {};
}

}  // namespace queen::broker
