#include "lake/detail/columns.h"

#include <utility>

#include "lake/detail/delta_binary.h"
#include "lake/detail/varint.h"

namespace queen::lake {
namespace {

constexpr std::size_t kLengthBytes = 4;
// Length, the header of one packed run, one bit a row: more than one run of equal levels takes.
constexpr std::size_t kLevelBytesMax = kLengthBytes + 3 + (kPageRowsMax + 7) / 8;

void append_plain(Bytes& to, BytesView value) {
  append_sized32(to, value);
}

// HD-22: looked at before each value, so that only a value that is above the limit by itself is.
bool page_is_full(std::uint32_t rows, std::size_t page_bytes, std::size_t value_bytes) {
  if (rows == 0) return false;
  return rows >= kPageRowsMax || page_bytes + kLengthBytes + value_bytes > kPageBytesMax;
}

}  // namespace

void Int64Column::push(std::int64_t value) {
  static_assert(kPageRowsMax * sizeof(std::int64_t) * 2 < kPageBytesMax);
  if (page_.size() == kPageRowsMax) close_page();
  page_.push_back(value);
  bounds_.see(value);
}

void Int64Column::close_page() {
  packed_.clear();
  append_delta_binary(packed_, page_);
  pages_.add_data(Encoding::delta_binary_packed, static_cast<std::uint32_t>(page_.size()), packed_);
  page_.clear();
}

Result<ChunkFacts> Int64Column::finish(Bytes& object) {
  close_page();
  auto facts = pages_.finish(object, {}, 0);
  if (!facts) return facts;
  facts->min = bounds_.min();
  facts->max = bounds_.max();
  bounds_ = {};
  return facts;
}

TextColumn::TextColumn(PageCompressor& compressor, Nulls nulls)
    : level_room_(nulls == Nulls::allowed ? kLevelBytesMax : 0),
      pages_(compressor),
      page_(level_room_, '\0') {}

void TextColumn::push(BytesView value) {
  make_room(value.size());
  append_plain(page_, value);
  add_level(true);
  bounds_.see(value);
}

void TextColumn::push_null() {
  make_room(0);
  add_level(false);
  ++nulls_in_page_;
}

void TextColumn::make_room(std::size_t value_bytes) {
  if (page_is_full(rows_, page_.size() - level_room_, value_bytes)) close_page();
}

void TextColumn::add_level(bool present) {
  if (level_room_ > 0) {
    if (rows_ % 8 == 0) levels_.push_back('\0');
    if (present) levels_.back() = static_cast<char>(levels_.back() | 1 << (rows_ % 8));
  }
  ++rows_;
}

std::size_t TextColumn::write_levels() {
  if (level_room_ == 0) return 0;
  Bytes runs;
  const bool all_equal = nulls_in_page_ == 0 || nulls_in_page_ == rows_;
  if (all_equal) {
    const Run run{nulls_in_page_ == 0 ? 1U : 0U, rows_};
    append_varint(runs, std::uint64_t{run.count} << 1);
    runs.push_back(static_cast<char>(run.value));
  } else {
    append_varint(runs, levels_.size() << 1 | 1);
    runs += levels_;
  }
  const std::size_t at = level_room_ - kLengthBytes - runs.size();
  store_le(page_.data() + at, static_cast<std::uint32_t>(runs.size()));
  page_.replace(at + kLengthBytes, runs.size(), runs);
  return at;
}

void TextColumn::close_page() {
  const std::size_t at = write_levels();
  pages_.add_data(Encoding::plain, rows_, BytesView(page_).substr(at));
  page_.resize(level_room_);
  levels_.clear();
  nulls_ += std::exchange(nulls_in_page_, 0);
  rows_ = 0;
}

Result<ChunkFacts> TextColumn::finish(Bytes& object) {
  close_page();
  auto facts = pages_.finish(object, {}, 0);
  if (!facts) return facts;
  facts->nulls = std::exchange(nulls_, 0);
  facts->min = bounds_.min();
  facts->max = bounds_.max();
  bounds_ = {};
  return facts;
}

void NameColumn::push(BytesView name) {
  if (!full_ && !in_dictionary(name)) {
    if (rows_ > 0) close_page();
    full_ = true;
  }
  if (full_) {
    push_plain(name);
    return;
  }
  if (rows_ == kPageRowsMax) close_page();
  const std::uint32_t index = names_ - 1;
  if (runs_.empty() || runs_.back().value != index) runs_.push_back({index, 0});
  ++runs_.back().count;
  ++rows_;
}

// The last entry is `name` on return of true.
bool NameColumn::in_dictionary(BytesView name) {
  if (last_ == name) return true;
  if (dictionary_.size() + kLengthBytes + name.size() > kPageBytesMax) return false;
  append_plain(dictionary_, name);
  ++names_;
  last_.emplace(name);
  bounds_.see(name);
  return true;
}

void NameColumn::push_plain(BytesView name) {
  if (page_is_full(rows_, page_.size(), name.size())) close_page();
  append_plain(page_, name);
  bounds_.see(name);
  ++rows_;
}

void NameColumn::close_page() {
  if (!full_) {
    const unsigned width = width_of(runs_.back().value);
    page_.push_back(static_cast<char>(width));
    append_hybrid(page_, runs_, width);
  }
  pages_.add_data(full_ ? Encoding::plain : Encoding::rle_dictionary, rows_, page_);
  page_.clear();
  runs_.clear();
  rows_ = 0;
}

Result<ChunkFacts> NameColumn::finish(Bytes& object) {
  close_page();
  auto facts = pages_.finish(object, dictionary_, names_);
  if (!facts) return facts;
  facts->min = bounds_.min();
  facts->max = bounds_.max();
  bounds_ = {};
  dictionary_.clear();
  names_ = 0;
  last_.reset();
  full_ = false;
  return facts;
}

}  // namespace queen::lake
