// Who surely held which permit when, by log time, and with which token.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ledger.h"
#include "story.h"

namespace queen::sim {

struct Permit {
  std::string lock;
  std::uint32_t slot = 0;
  auto operator<=>(const Permit&) const = default;
};

class LockBook {
 public:
  explicit LockBook(Story& story) : story_(story) {}

  struct Hold {
    std::string owner;
    std::int64_t from_us = 0, to_us = 0;  // held at every log time between them, both included
  };
  using HoldId = std::size_t;

  // World times of the call are those around it; log times bound the stamp of its write.
  struct Times {
    std::int64_t called_us = 0, returned_us = 0, before_us = 0, after_us = 0;
  };
  HoldId granted(const Permit& permit, const std::string& owner, std::uint64_t token, std::int64_t ttl_us,
                 Times times);
  void renewed(const Permit& permit, HoldId id, std::uint64_t token, std::int64_t ttl_us, Times times);
  // A renewal was sent when log time had passed `stamp_us`, and nobody knows what came of it: its lifetime
  // may be the shorter one.
  void maybe_renewed(const Permit& permit, HoldId id, std::int64_t ttl_us, std::int64_t stamp_us);
  // A renewal that was told that the permit is lost, though nobody gave it back.
  void lost(const Permit& permit, HoldId id, Times times);
  // A release is about to be sent, when log time had passed `stamp_us`: nothing is sure behind it.
  void releasing(const Permit& permit, HoldId id, std::int64_t stamp_us);

  // The log time by which the token surely was the permit's.
  std::int64_t token_given(const Permit& permit, std::uint64_t token) const;

  void check();
  // Messages that were pushed under a token stand in the order of the tokens.
  void check_fences(const std::map<PartitionName, PartitionRead>& logs, const std::string& queue);
  // The id of a message that is guarded; `unique` tells it from others.
  static std::string guarded_id(const Permit& permit, std::uint64_t token, std::uint64_t unique);

 private:
  struct Given {
    std::uint64_t token = 0;
    std::int64_t returned_us = 0, after_us = 0;
  };
  void take_token(const Permit& permit, std::uint64_t token, Times times);

  Story& story_;
  std::map<Permit, std::vector<Hold>> holds_;
  std::map<Permit, std::vector<Given>> tokens_;
};

}  // namespace queen::sim
