// What the formats have in common: the order that an object's records stand in (s3-sink.md 15.1) and what a
// payload is written as.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "lake/record_writer.h"

namespace queen::lake {

// `invalid`, naming partition and offset.
Error refused(const Record& record, std::string_view why);

// Holds the place of the record before.
class RecordOrder {
 public:
  // Whether `record` may come next. Errors: invalid.
  Status check(const Record& record) const;
  // Makes `record` the one before.
  void advance(const Record& record);
  // What the record before and this one share, so that a writer need not write it again.
  bool same_partition(const Record& record) const { return any_ && record.partition == partition_; }
  bool same_stamp(const Record& record) const { return any_ && record.ts == ts_; }

 private:
  bool any_ = false;
  std::string partition_;
  std::uint64_t offset_ = 0;
  std::int64_t ts_ = 0;
};

// A stored payload that is nothing: pushed as `null`.
inline bool is_null(const Record& record) {
  return record.payload_kind == Payload::null ||
         (record.payload_kind == Payload::json && record.payload.empty());
}

// Bytes that are no JSON document, as one: a JSON string, each invalid UTF-8 sequence replaced by U+FFFD.
void append_text_of_raw(Bytes& to, BytesView raw);

}  // namespace queen::lake
