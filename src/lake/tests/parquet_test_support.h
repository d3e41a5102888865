// A Parquet file taken apart without our reader: its footer through Thrift, its pages by their headers.
#pragma once

#include <gtest/gtest.h>
#include <parquet_meta_types.h>
#include <thrift/protocol/TCompactProtocol.h>
#include <thrift/transport/TBufferTransports.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lake/detail/page_codec.h"
#include "lake/detail/parquet_meta.h"
#include "lake/detail/writers.h"
#include "lake_test_support.h"

namespace queen::lake {

inline Bytes parquet_of(Codec codec, RowGroupLimits limits, const std::vector<Record>& records) {
  return filled(*make_parquet_writer(codec, sample_origin(), limits), records);
}

inline wire::Footer footer_of(const Bytes& object) {
  wire::Footer footer;
  EXPECT_EQ(object.substr(0, 4), "PAR1");
  EXPECT_EQ(object.substr(object.size() - 4), "PAR1");
  const auto size = load_le<std::uint32_t>(object.data() + object.size() - 8);
  auto* const at =
      reinterpret_cast<std::uint8_t*>(const_cast<char*>(object.data())) + object.size() - 8 - size;
  const auto buffer = std::make_shared<apache::thrift::transport::TMemoryBuffer>(at, size);
  apache::thrift::protocol::TCompactProtocol protocol(buffer);
  footer.read(&protocol);
  EXPECT_EQ(buffer->available_read(), 0U);
  return footer;
}

struct Page {
  PageFacts facts;
  std::size_t header_bytes = 0;
  Bytes plain;
};

// All pages of a chunk, its dictionary's first.
inline std::vector<Page> pages_of(const Bytes& object, const wire::ColumnMeta& meta) {
  std::vector<Page> pages;
  const std::int64_t at = meta.__isset.dictionary_page_at ? meta.dictionary_page_at : meta.data_page_at;
  BytesView rest =
      BytesView(object).substr(static_cast<std::size_t>(at), static_cast<std::size_t>(meta.stored_bytes));
  while (!rest.empty()) {
    const auto header = read_page_header(rest);
    if (!header) {
      ADD_FAILURE() << header.error().what;
      return pages;
    }
    Page page{header->first, header->second, {}};
    const BytesView stored = rest.substr(page.header_bytes, page.facts.stored_bytes);
    auto plain =
        decompress_page(meta.codec == 6 ? Codec::zstd : Codec::snappy, stored, page.facts.plain_bytes);
    EXPECT_TRUE(plain);
    if (plain) page.plain = *std::move(plain);
    rest.remove_prefix(page.header_bytes + stored.size());
    pages.push_back(std::move(page));
  }
  return pages;
}

inline const wire::ColumnMeta& meta_of(const wire::RowGroup& group, Column column) {
  return group.columns[static_cast<std::size_t>(column)].meta;
}

inline std::vector<std::uint32_t> rows_of_pages(const std::vector<Page>& pages) {
  std::vector<std::uint32_t> rows;
  for (const Page& page : pages)
    if (page.facts.type == PageType::data) rows.push_back(page.facts.values);
  return rows;
}

}  // namespace queen::lake
