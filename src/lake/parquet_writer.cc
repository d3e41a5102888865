// One record, one row of five columns (docs/formats/lake.md, "Parquet"). A value is copied into the open page
// of its column, from there it is compressed; a closed row group is compressed bytes in the object.
#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/invariant.h"
#include "lake/detail/columns.h"
#include "lake/detail/record_rules.h"
#include "lake/detail/writers.h"

namespace queen::lake {
namespace {

constexpr BytesView kMagic = "PAR1";

// The rows since the last row group was closed.
class OpenRowGroup {
 public:
  explicit OpenRowGroup(Codec codec) : compressor_(codec) {}

  std::uint64_t rows() const { return rows_; }

  void add(const Record& record, BytesView payload) {
    partition_.push(record.partition);
    offset_.push(static_cast<std::int64_t>(record.offset));
    transaction_id_.push(record.transaction_id);
    ts_.push(record.ts);
    if (is_null(record)) {
      payload_.push_null();
    } else {
      payload_.push(payload);
    }
    ++rows_;
  }

  // Appends the row group, which has rows, to `object`; the next one is open and empty. Errors: unavailable.
  Result<RowGroupFacts> close(Bytes& object) {
    RowGroupFacts group;
    group.rows = std::exchange(rows_, 0);
    for (const Column column : kAllColumns) {
      auto chunk = finish(column, object);
      if (!chunk) return std::move(chunk).error();
      group.chunks[static_cast<std::size_t>(column)] = *std::move(chunk);
    }
    return group;
  }

 private:
  Result<ChunkFacts> finish(Column column, Bytes& object) {
    switch (column) {
      case Column::partition:
        return partition_.finish(object);
      case Column::offset:
        return offset_.finish(object);
      case Column::transaction_id:
        return transaction_id_.finish(object);
      case Column::ts:
        return ts_.finish(object);
      case Column::payload:
        break;
    }
    return payload_.finish(object);
  }

  PageCompressor compressor_;
  NameColumn partition_{compressor_};
  Int64Column offset_{compressor_};
  TextColumn transaction_id_{compressor_, Nulls::never};
  Int64Column ts_{compressor_};
  TextColumn payload_{compressor_, Nulls::allowed};
  std::uint64_t rows_ = 0;
};

class ParquetWriter final : public RecordWriter {
 public:
  ParquetWriter(Codec codec, Origin origin, RowGroupLimits limits)
      : limits_(limits), group_(codec), object_(kMagic) {
    facts_.codec = codec;
    facts_.origin = std::move(origin);
  }

  Status push(const Record& record) override {
    if (finished_) return refused(record, "was pushed into a finished object");
    if (auto ordered = order_.check(record); !ordered) return ordered;
    const BytesView payload = payload_text(record);
    if (auto fits = check_sizes(record, payload); !fits) return fits;
    if (auto room = make_room(bytes_of(record, payload)); !room) return room;
    group_.add(record, payload);
    order_.advance(record);
    ++records_;
    return {};
  }

  Result<Bytes> finish() override {
    if (finished_) return Error{Errc::invalid, "the object is finished already"};
    finished_ = true;
    if (auto closed = close_row_group(); !closed) return std::move(closed).error();
    const Bytes footer = encode_footer(facts_);
    object_ += footer;
    append_le(object_, static_cast<std::uint32_t>(footer.size()));
    object_ += kMagic;
    return std::move(object_);
  }

  std::uint64_t records() const override { return records_; }

 private:
  // The payload as JSON text: what is none becomes a JSON string, in `quoted_`.
  BytesView payload_text(const Record& record) {
    if (record.payload_kind != Payload::raw_bytes) return record.payload;
    quoted_.clear();
    append_text_of_raw(quoted_, record.payload);
    return quoted_;
  }

  static std::uint64_t bytes_of(const Record& record, BytesView payload) {
    constexpr std::uint64_t kNumbers = 2 * sizeof(std::int64_t) + 3 * sizeof(std::uint32_t);
    return kNumbers + record.partition.size() + record.transaction_id.size() + payload.size();
  }

  static Status check_sizes(const Record& record, BytesView payload) {
    if (record.offset > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return refused(record, "has an offset that 63 bits do not hold");
    for (const BytesView text : {record.partition, record.transaction_id, payload})
      if (text.size() > kValueBytesMax)
        return refused(record,
                       fmt::format("has a text of {} bytes, more than {}", text.size(), kValueBytesMax));
    return {};
  }

  Status make_room(std::uint64_t record_bytes) {
    const bool full =
        group_.rows() >= limits_.rows || (group_.rows() > 0 && group_bytes_ + record_bytes > limits_.bytes);
    if (full) {
      if (auto closed = close_row_group(); !closed) return closed;
    }
    group_bytes_ += record_bytes;
    return {};
  }

  // An error leaves an object that nothing can be made of any more.
  Status close_row_group() {
    if (group_.rows() == 0) return {};
    auto closed = group_.close(object_);
    if (!closed) {
      finished_ = true;
      return std::move(closed).error();
    }
    facts_.row_groups.push_back(*std::move(closed));
    group_bytes_ = 0;
    return {};
  }

  const RowGroupLimits limits_;
  OpenRowGroup group_;
  std::uint64_t group_bytes_ = 0;
  RecordOrder order_;
  std::uint64_t records_ = 0;
  bool finished_ = false;
  std::string quoted_;
  FileFacts facts_;
  Bytes object_;
};

}  // namespace

std::unique_ptr<RecordWriter> make_parquet_writer(Codec codec, Origin origin, RowGroupLimits limits) {
  INVARIANT(limits.rows > 0 && limits.rows <= kRowGroupRowsMax, "row groups of {} rows", limits.rows);
  return std::make_unique<ParquetWriter>(codec, std::move(origin), limits);
}

}  // namespace queen::lake
