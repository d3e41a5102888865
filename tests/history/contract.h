// The contract of push, pop, ack and dead letters (api-messaging.md 3 to 5) as a model: what a node must
// answer, kept apart from how the node decides it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "machine/commands.h"

namespace queen::history {

struct StoredMessage {
  std::uint32_t id = 0;  // its transaction id, as a number
  std::int64_t stamp = 0;
};

struct HeldLease {
  std::string id;
  std::int64_t first = 0, last = 0;  // as claimed
  std::int64_t expires = 0;
  bool live_at(std::int64_t now) const { return expires > now; }
};

struct GroupCursor {
  std::int64_t committed = -1;
  bool stored = false;             // else the node only knows where it will start
  std::optional<HeldLease> lease;  // may have expired
  std::uint32_t retries = 0;
  bool retries_known = true;  // the contract says what the counter is
  std::optional<std::int64_t> attempt_offset;
  std::uint32_t attempts = 0;
  bool attempts_known = true;
  std::optional<HeldLease> settled;  // the last lease that an ack ended by settling its whole batch
};

struct QueueRules {
  std::int32_t lease_time = 60, retry_limit = 3, delay = 0, window = 0, dedup_window = 3600;
  bool dead_letters = true;
};

struct PartitionLog {
  std::string queue, name;
  std::vector<StoredMessage> messages;  // by offset
};

struct Registration {
  bool all = true;
  std::int64_t at = 0;
};

struct FiledMessage {
  std::uint64_t pid = 0;
  std::string group;
  std::int64_t offset = 0;
  std::uint32_t retries = 0;
  auto operator<=>(const FiledMessage&) const = default;
};

class Contract {
 public:
  // Each compares an answer with what the contract allows and takes it over; the text of the first
  // difference, or nothing. `now` is the log time of the entry.
  std::string pushed(const machine::PushCommand& push, const std::vector<std::vector<std::uint32_t>>& ids,
                     const machine::PushOutcome& outcome, std::int64_t now);
  std::string popped(const machine::PopCommand& pop, const machine::PopOutcome& outcome, std::int64_t now);
  std::string acked(const machine::AckCommand& ack, const std::vector<std::uint32_t>& ids,
                    const machine::AckOutcome& outcome, std::int64_t now);
  // The claims of the pop with this lease were given back (L-9).
  void handed_back(const std::string& group, const std::string& lease_id);
  std::string sought(const machine::SeekCommand& seek, const machine::SeekOutcome& outcome);
  std::string renewed(const machine::RenewCommand& renew, const machine::RenewOutcome& outcome,
                      std::int64_t now);
  void group_deleted(const machine::GroupDeleteCommand& deletion);
  void configured(const std::string& queue, const QueueRules& rules) { queues_[queue] = rules; }

  const std::map<std::uint64_t, PartitionLog>& partitions() const { return partitions_; }
  using CursorKey = std::pair<std::uint64_t, std::string>;  // pid, group
  const std::map<CursorKey, GroupCursor>& cursors() const { return cursors_; }
  std::map<CursorKey, GroupCursor>& cursors() { return cursors_; }
  // A pinned pop that got nothing need not have left a cursor at the start of the partition (F-5).
  void forget_unset(const std::function<bool(const CursorKey&)>& unset);
  const std::multiset<FiledMessage>& filed() const { return filed_; }
  const QueueRules& rules(const std::string& queue) { return queues_[queue]; }

 private:
  std::string check_claim(const machine::PopCommand& pop, const machine::PopClaim& claim, std::int64_t now,
                          std::uint32_t& room);
  // The last offset that the group may get now; below its next one when there is nothing.
  std::int64_t deliverable_to(const PartitionLog& partition, std::int64_t now) const;
  GroupCursor& cursor_of(std::uint64_t pid, const machine::PopCommand& pop, std::int64_t now);
  void contact(const machine::PopCommand& pop, std::int64_t now);
  struct Target;
  std::string check_target(const Target& target, const machine::AckCommand& ack,
                           const std::vector<std::uint32_t>& ids, const machine::AckOutcome& outcome,
                           std::int64_t now);

  std::map<std::string, QueueRules> queues_;
  std::map<std::uint64_t, PartitionLog> partitions_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> pids_;   // by queue and partition
  std::map<std::pair<std::string, std::string>, Registration> groups_;  // by queue and group
  std::map<CursorKey, GroupCursor> cursors_;
  // What each claim replaced, for L-9: by pid, group and lease id.
  struct Attempts {
    std::optional<std::int64_t> offset;
    std::uint32_t count = 0;
    bool known = true;
  };
  std::map<std::pair<CursorKey, std::string>, Attempts> before_;
  std::multiset<FiledMessage> filed_;
};

}  // namespace queen::history
