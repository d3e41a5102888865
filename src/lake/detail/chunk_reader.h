// The columns of a row group of ours, page by page: pages out, values in the order of the rows. Bytes are
// hostile: a page is inflated only when its size is one that our writer makes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "lake/detail/columns.h"
#include "lake/detail/parquet_meta.h"

namespace queen::lake {

struct OpenPage {
  PageFacts facts;
  Bytes plain;
};

class PageReader {
 public:
  // `chunk` is borrowed for life; it holds `rows` values.
  PageReader(Codec codec, BytesView chunk, std::uint64_t rows) : codec_(codec), rest_(chunk), rows_(rows) {}
  // The next page. Errors: corrupt, also when no page is left.
  Result<OpenPage> next();
  // No value and no byte is left. Errors: corrupt.
  Status done() const;

 private:
  Codec codec_;
  BytesView rest_;
  std::uint64_t rows_;  // that pages have still to give
};

class Int64Reader {
 public:
  explicit Int64Reader(PageReader pages) : pages_(pages) {}
  Result<std::int64_t> next();
  Status done() const { return pages_.done(); }

 private:
  PageReader pages_;
  std::vector<std::int64_t> values_;
  std::size_t at_ = 0;
};

class TextReader {
 public:
  TextReader(PageReader pages, Nulls nulls) : pages_(pages), nulls_(nulls) {}
  // Borrowed until the next call; nothing for null.
  Result<std::optional<BytesView>> next();
  Status done() const { return pages_.done(); }

 private:
  Status open_page();
  Status open_dictionary();
  Status open_levels();
  Result<BytesView> value();

  PageReader pages_;
  const Nulls nulls_;
  OpenPage page_;
  BytesView rest_;                      // of the open page's PLAIN values
  std::uint32_t row_ = 0;               // of the open page, the next one
  std::vector<std::uint32_t> levels_;   // of the open page where nulls are allowed
  std::vector<std::uint32_t> indices_;  // of the open page when it has a dictionary's
  Bytes dictionary_;
  std::vector<BytesView> names_;  // of the dictionary
};

}  // namespace queen::lake
