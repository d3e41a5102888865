#include "lake/detail/chunk_pages.h"

#include <utility>

namespace queen::lake {

void ChunkPages::add_data(Encoding encoding, std::uint32_t values, BytesView plain) {
  facts_.values += values;
  ++(encoding == Encoding::rle_dictionary ? facts_.dictionary_data_pages : facts_.other_data_pages);
  append(pages_, {PageType::data, encoding, values, 0, 0}, plain);
}

void ChunkPages::append(Bytes& to, PageFacts page, BytesView plain) {
  const auto compressed = compressor_.compress(plain);
  if (!compressed) {
    failed_ = compressed.error();
    return;
  }
  const std::size_t before = to.size();
  page.plain_bytes = static_cast<std::uint32_t>(plain.size());
  page.stored_bytes = static_cast<std::uint32_t>(compressed->size());
  append_page_header(to, page);
  facts_.plain_bytes += to.size() - before + plain.size();
  to += *compressed;
  facts_.stored_bytes += to.size() - before;
}

Result<ChunkFacts> ChunkPages::finish(Bytes& object, BytesView dictionary, std::uint32_t dictionary_values) {
  const std::size_t at = object.size();
  if (dictionary_values > 0) {
    append(object, {PageType::dictionary, Encoding::plain, dictionary_values, 0, 0}, dictionary);
    facts_.dictionary_page_bytes = object.size() - at;
  }
  if (failed_) return *failed_;
  object += pages_;
  pages_.clear();
  facts_.at = at;
  return std::exchange(facts_, {});
}

}  // namespace queen::lake
