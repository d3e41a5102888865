// Reads Parquet objects of our writer row by row. What stands in memory is one page of each column.
#include <fmt/format.h>

#include <utility>

#include "lake/detail/chunk_reader.h"
#include "lake/detail/parquet_meta.h"
#include "lake/detail/readers.h"

namespace queen::lake {
namespace {

constexpr BytesView kMagic = "PAR1";
constexpr std::size_t kTailBytes = sizeof(std::uint32_t) + kMagic.size();

// The columns of one row group.
class RowGroupReader {
 public:
  RowGroupReader(Codec codec, const RowGroupPlace& place, BytesView object)
      : partition_(pages(codec, place, object, Column::partition), Nulls::never),
        offset_(pages(codec, place, object, Column::offset)),
        transaction_id_(pages(codec, place, object, Column::transaction_id), Nulls::never),
        ts_(pages(codec, place, object, Column::ts)),
        payload_(pages(codec, place, object, Column::payload), Nulls::allowed),
        rows_left_(place.rows) {}

  std::uint64_t rows_left() const { return rows_left_; }

  Result<ReadRecord> next() {
    const auto partition = partition_.next();
    if (!partition) return partition.error();
    const auto offset = offset_.next();
    if (!offset) return offset.error();
    const auto transaction_id = transaction_id_.next();
    if (!transaction_id) return transaction_id.error();
    const auto ts = ts_.next();
    if (!ts) return ts.error();
    const auto payload = payload_.next();
    if (!payload) return payload.error();
    if (*offset < 0) return Error{Errc::corrupt, fmt::format("a record has the offset {}", *offset)};
    ReadRecord record{std::string(**partition), static_cast<std::uint64_t>(*offset),
                      std::string(**transaction_id), *ts, std::nullopt};
    if (*payload) record.payload.emplace(**payload);
    if (--rows_left_ > 0) return record;
    if (auto whole = done(); !whole) return std::move(whole).error();
    return record;
  }

 private:
  static PageReader pages(Codec codec, const RowGroupPlace& place, BytesView object, Column column) {
    const ChunkPlace& chunk = place.chunks[static_cast<std::size_t>(column)];
    return {codec, object.substr(chunk.at, chunk.stored_bytes), place.rows};
  }

  Status done() const {
    for (const Status& status :
         {partition_.done(), offset_.done(), transaction_id_.done(), ts_.done(), payload_.done()})
      if (!status) return status;
    return {};
  }

  TextReader partition_;
  Int64Reader offset_;
  TextReader transaction_id_;
  Int64Reader ts_;
  TextReader payload_;
  std::uint64_t rows_left_;
};

class ParquetReader final : public RecordReader {
 public:
  ParquetReader(BytesView object, FilePlan plan) : object_(object), plan_(std::move(plan)) {}

  Result<std::optional<ReadRecord>> next() override {
    if (failed_) return *failed_;
    if (!group_ || group_->rows_left() == 0) {
      if (next_group_ == plan_.row_groups.size()) return std::nullopt;
      group_ = std::make_unique<RowGroupReader>(plan_.codec, plan_.row_groups[next_group_++], object_);
    }
    auto record = group_->next();
    if (!record) {
      failed_ = record.error();
      return *failed_;
    }
    return std::optional(*std::move(record));
  }

 private:
  const BytesView object_;
  const FilePlan plan_;
  std::size_t next_group_ = 0;
  std::unique_ptr<RowGroupReader> group_;
  std::optional<Error> failed_;
};

}  // namespace

Result<std::unique_ptr<RecordReader>> open_parquet(BytesView object) {
  const bool framed =
      object.size() >= kMagic.size() + kTailBytes && object.starts_with(kMagic) && object.ends_with(kMagic);
  if (!framed) return Error{Errc::corrupt, "the object does not stand between two PAR1"};
  const BytesView body = object.substr(0, object.size() - kTailBytes);
  const auto footer_bytes = load_le<std::uint32_t>(object.data() + body.size());
  if (footer_bytes > body.size() - kMagic.size())
    return Error{Errc::corrupt,
                 fmt::format("a footer of {} bytes in an object of {}", footer_bytes, object.size())};
  const std::size_t pages_end = body.size() - footer_bytes;
  auto plan = decode_footer(body.substr(pages_end), pages_end);
  if (!plan) return std::move(plan).error();
  return std::unique_ptr<RecordReader>(std::make_unique<ParquetReader>(object, *std::move(plan)));
}

}  // namespace queen::lake
