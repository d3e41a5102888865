// The KV documents of a queue: exact JSON out, tolerant of unknown fields in (s3-sink.md 5;
// docs/formats/bucket.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "lake/record_writer.h"
#include "sink/layout.h"

namespace queen::sink {

// Lease and presence row.
struct LeaseRow {
  std::string instance;
  std::string incarnation;    // 16 lower-case hex digits, one per life of a claim
  std::int64_t since_ms = 0;  // wall clock when the handle claimed the row
  bool operator==(const LeaseRow&) const = default;
};

// The window being committed. What it is written as is kept as text: an intent of another build must be
// readable, so that the queue can say what this build cannot write.
struct Intent {
  WindowBounds bounds;
  std::string format, compression, layout, writer;
  bool operator==(const Intent&) const = default;
};

// What a window is written as.
struct WindowFormat {
  lake::Kind kind;
  Layout layout = Layout::merged;
};
Intent make_intent(const WindowBounds& bounds, const WindowFormat& format, std::string writer);
// The format that a redo must use: the intent's own, whatever the settings are now. Errors: invalid, naming
// the field that this build cannot write and its value; the caller adds the key and stops the queue as
// failed.
Result<WindowFormat> format_of(const Intent& intent);

// The commit pointer.
struct Committed {
  std::uint64_t k = 0;
  std::int64_t t_end =
      0;  // µs; written as ISO text because the retention hold reads it, read also as an integer
  std::string manifest;  // key
  std::uint64_t records = 0, bytes = 0;
  std::int64_t committed_at_ms = 0;
  bool operator==(const Committed&) const = default;
};

// One line of JSON with a blank after each colon and comma, fields in the order of the format page.
std::string encode(const LeaseRow& row);
std::string encode(const Intent& intent);
std::string encode(const Committed& committed);

// Errors: corrupt, naming what is wrong. A lease row that does not parse is held by "unknown"; an intent that
// does not parse is ignored but its row's version counts; a commit pointer that does not parse stops the
// queue as failed, naming its key: numbering never restarts by itself.
Result<LeaseRow> parse_lease_row(std::string_view json);
Result<Intent> parse_intent(std::string_view json);
Result<Committed> parse_committed(std::string_view json);

}  // namespace queen::sink
