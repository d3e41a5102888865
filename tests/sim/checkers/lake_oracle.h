// Whether a bucket holds exactly what was committed to one queue ("Lake is right", s3-sink.md 26;
// docs/formats/bucket.md, lake.md). Pure: bytes in, complaints out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "sink/documents.h"
#include "sink/layout.h"

namespace queen::sim {

// What became of a committed record outside the lake.
enum class Fate : std::uint8_t {
  kept,         // it is in an object once the pointer has passed it
  lost_unread,  // retention took it before the sink read it: it is in no object
  lost_maybe,  // retention took it: shipped, named as lost, or neither when no record of its partition before
               // it is (a partition that is seen first behind its loss is read from what is left,
               // s3-sink.md 8.5)
  deleted,     // its partition was deleted: shipped, named as lost, or neither when the sink never saw it
};

struct LakeRecord {
  std::uint64_t offset = 0;
  std::int64_t ts = 0;  // µs
  std::string transaction_id;
  std::optional<std::string> payload;  // JSON text as pushed; nothing for null
  Fate fate = Fate::kept;
  bool ts_known = true;  // otherwise `ts` is not below it: nobody read the record before it was gone
};

// One life of a partition: from its first push until it is deleted. Records in order of offset.
struct PartitionLife {
  std::string partition;
  std::vector<LakeRecord> records;
};

struct LakeQuestion {
  std::map<std::string, Bytes> objects;  // of the bucket, by key
  sink::LakePath path;
  std::string sink;
  sink::Align align = sink::Align::hour;
  std::vector<PartitionLife> log;  // lives of the queue, those of one partition in order
  // Records stamped below are not for the lake (a sink that starts with what is new); nothing: all are.
  std::optional<std::int64_t> ships_from;
  // The commit pointer. Nothing: no window is committed.
  std::optional<sink::Committed> pointer;
  // The window behind the pointer's, whose upload may be under way: its objects and its manifest may be
  // there.
  enum class InFlight : bool { none, allowed } in_flight = InFlight::none;
  // A sink that went on from a checkpoint of positions names as lost what retention took behind it, also
  // what windows after the checkpoint had shipped (s3-sink.md 12).
  enum class NamesShipped : bool { refused, allowed } names_shipped = NamesShipped::refused;
  // Every PUT that the bucket took: key, and sha256 of the content in lower-case hex.
  std::vector<std::pair<std::string, std::string>> puts;
};

struct LakeAnswer {
  std::vector<std::string> complaints;  // `<reason>: window <k>: <what>`, or `<reason>: <what>`; none: right
  std::uint64_t windows = 0, records = 0, lost = 0;  // committed
  bool right() const { return complaints.empty(); }
  std::string text() const;
};

// Reasons: pointer, numbering, manifest, names, sums, tiling, key, object, bytes, format, line, order,
// summary, foreign, payload, ts, duplicate, missing, lost_kept, lost_shipped, lost_unknown, shipped_lost,
// orphan, rewritten.
LakeAnswer check_lake(const LakeQuestion& question);

}  // namespace queen::sim
