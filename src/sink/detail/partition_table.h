// The partitions of one queue that discovery named: where each is read from, what of it is buffered, and up
// to which stamp it is known (s3-sink.md 8.4, 8.5, 12). Part of the window engine; no I/O, no clock.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sink/broker_port.h"
#include "sink/checkpoint.h"
#include "sink/manifest.h"
#include "sink/window_plan.h"

namespace queen::sink::detail {

// Minus infinity on the axis of stamps.
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();
inline constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

struct Partition {
  std::string name;
  std::optional<Uuid> id;
  std::uint64_t next = 0;  // read position
  std::int64_t last_offset = -1;
  std::uint64_t log_start = 0;
  std::int64_t read_up_to = kNever;    // stamp of the last record read since the position was set
  std::int64_t caught_up_at = kNever;  // safeTime that goes with the observation that nothing was left
  std::uint64_t first_seen_attempt = 0;
  std::uint64_t last_seen_k = 0;
  std::uint32_t generation = 0;  // raised when the partition was deleted and made again
  bool position_pending = false;
  bool in_flight = false;  // a fetch or a seek
  bool parked = false;     // its last answer brought nothing: not asked again before an idle wait
  std::size_t older = 0;   // of `buffer`, records of an earlier incarnation
  std::uint64_t weight = 0;
  std::vector<BufferedRecord> buffer;  // in stamp order

  bool caught_up() const { return !position_pending && static_cast<std::int64_t>(next) > last_offset; }
};

// What holds while one page of discovery is merged.
struct PageContext {
  std::int64_t safe_time = 0;
  std::uint64_t attempt = 0;
  std::uint64_t k = 0;  // the window being filled
  bool from_earliest = false;
  std::optional<std::int64_t> t_prev;  // as known before the page
};

// The last complete pass, as frontiers need it.
struct CompletePass {
  std::uint64_t attempt = 0;  // 0 = none yet
  std::int64_t safe_time = kNever;
};

enum class Absorbed : std::uint8_t { taken, missing };

class PartitionTable {
 public:
  void restore_positions(const Checkpoint& checkpoint);
  void merge(const ChangedRow& row, const PageContext& page);
  // One entry of a fetch answer. Records stamped below `filter` are committed already and dropped.
  // `issued_at` is the safeTime that was known when the call went out.
  Absorbed absorb(Partition& partition, std::uint32_t generation, FetchedEntry entry, std::int64_t filter,
                  std::int64_t issued_at);
  // The call of this partition failed: it may be asked again.
  void release(Partition& partition);
  // The answer of a seek; nothing when it failed.
  void place(Partition& partition, std::uint32_t generation, std::optional<std::uint64_t> offset,
             std::int64_t issued_at);
  void unpark_all();

  std::int64_t frontier(const Partition& partition, const CompletePass& pass) const;
  // The smallest frontier; nothing when no partition is tracked. Partitions known up to the pass are left out
  // of the scan, so that cold ones cost nothing here.
  std::optional<std::int64_t> queue_frontier(const CompletePass& pass);
  // The smallest frontier of the partitions whose unread records are on their way or can be asked for;
  // nothing when nothing is. Partitions whose last answer brought nothing do not count.
  std::optional<std::int64_t> reading_from(const CompletePass& pass) const;
  // Partitions that want a seek, and those with unread records that may be asked, by frontier and then name.
  std::vector<Partition*> wanting_seek() const;
  std::vector<std::pair<std::int64_t, Partition*>> wanting_fetch(const CompletePass& pass) const;

  std::optional<std::int64_t> smallest_stamp() const;  // of what is buffered
  // (stamp, weight) of each buffered record stamped below `cap`, by stamp.
  std::vector<std::pair<std::int64_t, std::uint64_t>> weights_below(std::int64_t cap) const;
  // Takes every buffered record stamped below `end` and all lost ranges found so far.
  WindowPlan cut(const WindowBounds& bounds);
  // Puts lost ranges back that belong to a window still to come.
  void keep_lost(std::vector<LostRange> lost);
  void prune(std::uint64_t committed_k, std::uint64_t after_windows);
  Checkpoint positions(std::uint64_t k, std::int64_t t_end) const;

  std::size_t size() const { return partitions_.size(); }
  std::uint64_t weight() const { return weight_; }

 private:
  void set_position(Partition& partition, const ChangedRow& row, const PageContext& page);
  bool position_from_checkpoint(Partition& partition, const ChangedRow& row);
  void begin_incarnation(Partition& partition, const ChangedRow& row, const PageContext& page);
  void skip_trimmed(Partition& partition);
  void out_of_range(Partition& partition, const FetchedEntry& entry);
  bool take_records(Partition& partition, std::vector<FetchedRecord> records, std::int64_t filter);
  void buffer(Partition& partition, FetchedRecord record);
  void drop_older_copy(Partition& partition, const FetchedRecord& record);
  void lose(const Partition& partition, std::uint64_t from, std::uint64_t to);

  std::unordered_map<std::string, Partition> partitions_;
  std::unordered_map<std::string, CheckpointPosition>
      restored_;                             // each consumed when discovery names its partition
  std::unordered_set<Partition*> open_;      // not known up to the last complete pass, or not looked at since
  std::unordered_set<Partition*> buffered_;  // with records in their buffer
  std::vector<LostRange> lost_;
  std::uint64_t weight_ = 0;
};

}  // namespace queen::sink::detail
