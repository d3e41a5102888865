// Appends whose rows left RAM while their messages are retained (storage.md RT-9, RT-10, CE-8). The planner
// reads no files: where a decision needs such an append it decides nothing and asks; the caller reads the log
// and submits the command again with the facts. A partition's cold part is [txns_start, rows_start).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"

namespace queen::machine {

struct ColdAsk {
  enum class Kind : std::uint8_t {
    start,    // the first message stamped at or after since_us: where a group starts (F-3)
    due,      // the same, asked to know what a delay still holds back
    appends,  // the appends themselves
  };
  Kind kind = Kind::appends;
  Pid pid;
  std::uint64_t queue_id = 0;
  std::int64_t from = 0, to = 0;  // offsets looked at, both inclusive; to < rows_start
  std::int64_t since_us = 0;      // start and due
  // Appends: frame bytes after which no more are wanted, and sizes without hashes; 0 = all, with hashes.
  std::uint64_t bytes_max = 0;
};

// Answers a `start` or `due`.
struct ColdStart {
  ColdAsk ask;
  std::int64_t offset = 0;  // ask.to + 1 when no message is stamped so late
  std::int64_t stamp = 0;   // of the message at `offset`, when there is one
};

struct ColdAppend {
  std::int64_t end = 0;  // last offset, inclusive
  std::int64_t created_at = 0;
  std::uint64_t raw_bytes = 0;  // of its frames
  Bytes hashes;                 // 16 per message; none when sizes were asked for, or the record is damaged
};

// What was read for one command. Appends below rows_start never change, so a fact stays true.
struct ColdFacts {
  struct Key {
    Pid pid;
    std::int64_t base = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Range {
    Pid pid;
    std::int64_t from = 0, to = 0;  // inclusive
  };
  std::vector<ColdStart> starts;
  std::map<Key, ColdAppend> appends;
  std::vector<Range> covered;  // appends that are not here do not exist

  bool empty() const { return starts.empty() && covered.empty(); }
  bool covers(Pid pid, std::int64_t from, std::int64_t to) const {
    return from > to || std::any_of(covered.begin(), covered.end(), [&](const Range& range) {
             return range.pid == pid && range.from <= from && to <= range.to;
           });
  }
  // The first append of the partition that ends at or above `offset`, or whatever comes after it.
  std::map<Key, ColdAppend>::const_iterator at(Pid pid, std::int64_t offset) const {
    auto next = appends.upper_bound({pid, offset});
    if (next == appends.begin()) return next;
    const auto before = std::prev(next);
    const bool holds = before->first.pid == pid && before->second.end >= offset;
    return holds ? before : next;
  }
};

}  // namespace queen::machine
