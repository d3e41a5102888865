#include "lake/detail/record_rules.h"

#include <fmt/format.h>

#include "base/text.h"

namespace queen::lake {

Error refused(const Record& record, std::string_view why) {
  return {Errc::invalid, fmt::format("partition {} offset {} {}", record.partition, record.offset, why)};
}

Status RecordOrder::check(const Record& record) const {
  if (!any_) return {};
  const int partitions = record.partition.compare(partition_);
  const bool ascending = partitions != 0 ? partitions > 0 : record.offset > offset_ || record.ts > ts_;
  if (ascending) return {};
  return refused(
      record, fmt::format("comes after partition {} offset {}, which is not ascending", partition_, offset_));
}

void RecordOrder::advance(const Record& record) {
  if (!same_partition(record)) partition_ = record.partition;
  offset_ = record.offset;
  ts_ = record.ts;
  any_ = true;
}

void append_text_of_raw(Bytes& to, BytesView raw) {
  if (is_utf8(raw)) {
    append_json_string(to, raw);
  } else {
    append_json_string(to, to_valid_utf8(raw));
  }
}

}  // namespace queen::lake
