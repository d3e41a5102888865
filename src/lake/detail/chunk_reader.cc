#include "lake/detail/chunk_reader.h"

#include <fmt/format.h>

#include <utility>

#include "lake/detail/delta_binary.h"
#include "lake/detail/page_codec.h"
#include "lake/detail/rle_hybrid.h"

namespace queen::lake {
namespace {

// Levels stand in front of the values, and a page of one value may have any size that a value may have.
constexpr std::size_t kLevelBytesMax = 4096;

Error damaged(std::string_view why) {
  return {Errc::corrupt, fmt::format("a column of the Parquet object is damaged: {}", why)};
}

bool is_reasonable(const PageFacts& page) {
  if (page.type == PageType::dictionary) return page.plain_bytes <= kPageBytesMax;
  const std::size_t values_max = page.values == 1 ? kValueBytesMax : kPageBytesMax;
  return page.values <= kPageRowsMax && page.plain_bytes <= values_max + kLevelBytesMax;
}

}  // namespace

Result<OpenPage> PageReader::next() {
  if (rows_ == 0) return damaged("a page is wanted behind the last row");
  auto header = read_page_header(rest_);
  if (!header) return std::move(header).error();
  const PageFacts page = header->first;
  rest_.remove_prefix(header->second);
  if (!is_reasonable(page) || page.stored_bytes > rest_.size())
    return damaged(fmt::format("a page of {} values in {} bytes, stored in {}", page.values, page.plain_bytes,
                               page.stored_bytes));
  if (page.type == PageType::data) {
    if (page.values > rows_) return damaged("more values than rows");
    rows_ -= page.values;
  }
  auto plain = decompress_page(codec_, rest_.substr(0, page.stored_bytes), page.plain_bytes);
  if (!plain) return std::move(plain).error();
  rest_.remove_prefix(page.stored_bytes);
  return OpenPage{page, *std::move(plain)};
}

Status PageReader::done() const {
  if (rows_ > 0) return damaged("rows without a value");
  if (!rest_.empty()) return damaged("bytes behind the last page");
  return {};
}

Result<std::int64_t> Int64Reader::next() {
  if (at_ == values_.size()) {
    auto page = pages_.next();
    if (!page) return std::move(page).error();
    if (page->facts.type != PageType::data || page->facts.encoding != Encoding::delta_binary_packed)
      return damaged("a page of numbers that are no packed deltas");
    auto values = read_delta_binary(page->plain, page->facts.values);
    if (!values) return std::move(values).error();
    values_ = *std::move(values);
    at_ = 0;
  }
  return values_[at_++];
}

Result<std::optional<BytesView>> TextReader::next() {
  if (row_ == page_.facts.values) {
    if (auto opened = open_page(); !opened) return std::move(opened).error();
  }
  const std::uint32_t row = row_++;
  const bool last = row_ == page_.facts.values;
  std::optional<BytesView> text;
  if (nulls_ == Nulls::never || levels_[row] != 0) {
    const auto read = value();
    if (!read) return read.error();
    text = *read;
  }
  if (last && !rest_.empty()) return damaged("bytes behind the last value of a page");
  return text;
}

Result<BytesView> TextReader::value() {
  if (page_.facts.encoding == Encoding::rle_dictionary) {
    const std::uint32_t index = indices_[row_ - 1];
    if (index >= names_.size()) return damaged("an index past the dictionary");
    return names_[index];
  }
  ByteReader from(rest_);
  const BytesView read = from.sized32();
  if (!from.ok()) return damaged("a value that is longer than its page");
  rest_ = from.rest();
  return read;
}

Status TextReader::open_page() {
  auto page = pages_.next();
  if (!page) return std::move(page).error();
  page_ = *std::move(page);
  if (page_.facts.type == PageType::dictionary) return open_dictionary();
  row_ = 0;
  rest_ = page_.plain;
  if (nulls_ == Nulls::allowed) {
    if (auto levels = open_levels(); !levels) return levels;
  }
  if (page_.facts.encoding == Encoding::plain) return {};
  if (page_.facts.encoding != Encoding::rle_dictionary || nulls_ == Nulls::allowed || rest_.empty())
    return damaged("a page of texts that are neither plain nor indices");
  const unsigned width = static_cast<unsigned char>(rest_.front());
  if (width < 1 || width > 32) return damaged(fmt::format("indices of {} bits", width));
  auto indices = read_hybrid(rest_.substr(1), width, page_.facts.values);
  if (!indices) return std::move(indices).error();
  indices_ = *std::move(indices);
  rest_ = {};
  return {};
}

// In front of the first data page, once; the data page behind it is opened with it.
Status TextReader::open_dictionary() {
  if (page_.facts.encoding != Encoding::plain || !names_.empty()) return damaged("a dictionary out of place");
  dictionary_ = std::move(page_.plain);
  ByteReader from(dictionary_);
  for (std::uint32_t i = 0; i < page_.facts.values && from.ok(); ++i) names_.push_back(from.sized32());
  if (!from.done()) return damaged("a dictionary whose entries do not fill it");
  return open_page();
}

Status TextReader::open_levels() {
  ByteReader from(rest_);
  const BytesView runs = from.sized32();
  if (!from.ok()) return damaged("a page without levels");
  auto levels = read_hybrid(runs, 1, page_.facts.values);
  if (!levels) return std::move(levels).error();
  levels_ = *std::move(levels);
  rest_ = from.rest();
  return {};
}

}  // namespace queen::lake
