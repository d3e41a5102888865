// What was asked of keys and answered, and whether it can be explained.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkers/linearizable.h"
#include "log_time.h"
#include "machine/state_commands.h"
#include "story.h"

namespace queen::sim {

class KeyBook {
 public:
  KeyBook(Story& story, LogTime& time) : story_(story), time_(time) {}

  // A call of operations with distinct keys, apart from reads of many at its end. World times.
  void answered(const std::vector<machine::KvOp>& ops, const machine::KvOutcome& outcome,
                std::int64_t called_us, std::int64_t returned_us);
  // It may take effect at any time, or never. `stamp_us`: a log time that had passed when it was called.
  void unknown(const std::vector<machine::KvOp>& ops, std::int64_t called_us, std::int64_t stamp_us);

  // The answers of each key, and of what stands there now, which nobody writes any more.
  void check(const std::map<std::string, machine::KvFound>& rows, std::int64_t stamp_us);

 private:
  struct Asked {
    KvCall call;
    std::optional<std::int64_t> expires_at;  // of the row that it writes, by log time
    bool expires_from = false;               // or later
  };
  struct Key {
    std::vector<Asked> asked;
    std::optional<machine::KvFound> last;  // as the newest read has it
  };

  void answered_one(const machine::KvOp& op, const machine::KvOpOutcome& outcome, std::int64_t called_us,
                    std::int64_t returned_us);
  void read(const std::string& key, const std::optional<machine::KvFound>& row, std::int64_t called_us,
            std::int64_t returned_us);
  void wrote(const std::string& key, const machine::KvFound& row, std::int64_t called_us,
             std::int64_t returned_us);
  void check_own_writes(const std::vector<machine::KvOp>& ops, const machine::KvOutcome& outcome);
  void check_row(const std::string& name, const Key& key, const std::map<std::string, machine::KvFound>& rows,
                 std::int64_t stamp_us);
  std::vector<KvCall> history_of(const Key& key) const;

  Story& story_;
  LogTime& time_;
  std::map<std::string, Key> keys_;
  std::map<std::string, std::vector<std::pair<std::int64_t, std::uint64_t>>>
      versions_;  // by world time of answers
  std::set<std::uint64_t> given_;
};

}  // namespace queen::sim
