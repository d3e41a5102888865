#include "lake/detail/parquet_meta.h"

#include <fmt/format.h>
#include <parquet_meta_types.h>
#include <thrift/protocol/TCompactProtocol.h>
#include <thrift/transport/TBufferTransports.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>

namespace queen::lake {
namespace {

using apache::thrift::TConfiguration;
using apache::thrift::protocol::TCompactProtocolT;
using apache::thrift::transport::TMemoryBuffer;

// Numbers of the format.
constexpr std::int32_t kFormatVersion = 1;
constexpr std::int32_t kTypeInt64 = 2;
constexpr std::int32_t kTypeByteArray = 6;
constexpr std::int32_t kRequired = 0;
constexpr std::int32_t kOptional = 1;
constexpr std::int32_t kConvertedUtf8 = 0;
constexpr std::int32_t kConvertedTimestampMicros = 10;
constexpr std::int32_t kCodecSnappy = 1;
constexpr std::int32_t kCodecZstd = 6;

constexpr std::size_t kPageHeaderBytesMax = 4096;
// More row groups than any object has. A list is made as long as it says it is before its elements are read.
constexpr std::int32_t kListElementsMax = 65'536;

std::int32_t number(Encoding encoding) {
  return static_cast<std::int32_t>(encoding);
}
std::int32_t number(PageType type) {
  return static_cast<std::int32_t>(type);
}

template <class Struct>
void append_struct(Bytes& to, const Struct& value) {
  const auto buffer = std::make_shared<TMemoryBuffer>();
  TCompactProtocolT<TMemoryBuffer> protocol(buffer);
  value.write(&protocol);
  std::uint8_t* bytes = nullptr;
  std::uint32_t size = 0;
  buffer->getBuffer(&bytes, &size);
  to.append(reinterpret_cast<const char*>(bytes), size);
}

// Reads one struct off the front and gives its size. Every length in it is checked against what is left. What
// Thrift throws on bytes that it cannot read ends here.
template <class Struct>
Result<std::size_t> read_struct(BytesView bytes, Struct& value, std::string_view what) {
  const auto size = static_cast<std::int32_t>(
      std::min<std::size_t>(bytes.size(), std::numeric_limits<std::int32_t>::max()));
  try {
    auto* const begin = reinterpret_cast<std::uint8_t*>(const_cast<char*>(bytes.data()));
    const auto configuration = std::make_shared<TConfiguration>(std::max(size, 1));
    const auto buffer = std::make_shared<TMemoryBuffer>(begin, static_cast<std::uint32_t>(size),
                                                        TMemoryBuffer::OBSERVE, configuration);
    TCompactProtocolT<TMemoryBuffer> protocol(buffer, size, std::min(size, kListElementsMax));
    value.read(&protocol);
    return static_cast<std::size_t>(size) - buffer->available_read();
  } catch (const std::exception& thrown) {
    return Error{Errc::corrupt, fmt::format("{} cannot be read: {}", what, thrown.what())};
  }
}

wire::SchemaElement schema_of(Column column) {
  wire::SchemaElement element;
  element.__set_name(std::string(name_of(column)));
  element.__set_repetition(column == Column::payload ? kOptional : kRequired);
  wire::LogicalType logical;
  switch (column) {
    case Column::offset:
      element.__set_type(kTypeInt64);
      return element;
    case Column::ts: {
      element.__set_type(kTypeInt64);
      element.__set_converted_type(kConvertedTimestampMicros);
      wire::TimestampType timestamp;
      timestamp.adjusted_to_utc = true;
      timestamp.unit.__set_micros({});
      logical.__set_timestamp(timestamp);
      break;
    }
    case Column::partition:
    case Column::transaction_id:
    case Column::payload:
      element.__set_type(kTypeByteArray);
      element.__set_converted_type(kConvertedUtf8);
      logical.__set_text({});
      break;
  }
  element.__set_logical_type(logical);
  return element;
}

std::vector<wire::SchemaElement> schema() {
  std::vector<wire::SchemaElement> elements(1);
  elements.front().__set_name("queen_record");
  elements.front().__set_children(static_cast<std::int32_t>(kColumns));
  for (const Column column : kAllColumns) elements.push_back(schema_of(column));
  return elements;
}

bool is_int64(Column column) {
  return column == Column::offset || column == Column::ts;
}

Encoding encoding_of(Column column) {
  return is_int64(column) ? Encoding::delta_binary_packed : Encoding::plain;
}

wire::Statistics statistics_of(const ChunkFacts& chunk) {
  wire::Statistics statistics;
  statistics.__set_null_count(static_cast<std::int64_t>(chunk.nulls));
  if (chunk.max.value) {
    statistics.__set_max_value(*chunk.max.value);
    statistics.__set_max_is_exact(chunk.max.exact);
  }
  if (chunk.min.value) {
    statistics.__set_min_value(*chunk.min.value);
    statistics.__set_min_is_exact(chunk.min.exact);
  }
  return statistics;
}

void add_pages(wire::ColumnMeta& meta, PageType type, Encoding encoding, std::uint32_t count) {
  if (count == 0) return;
  wire::EncodingStats stats;
  stats.page_type = number(type);
  stats.encoding = number(encoding);
  stats.count = static_cast<std::int32_t>(count);
  meta.encoding_stats.push_back(stats);
}

// Which encodings the chunk's pages use, ascending, each once; RLE is that of the levels.
void set_encodings(wire::ColumnMeta& meta, Column column, const ChunkFacts& chunk) {
  if (chunk.dictionary_page_bytes > 0) add_pages(meta, PageType::dictionary, Encoding::plain, 1);
  add_pages(meta, PageType::data, Encoding::rle_dictionary, chunk.dictionary_data_pages);
  add_pages(meta, PageType::data, encoding_of(column), chunk.other_data_pages);
  meta.__isset.encoding_stats = true;
  meta.encodings.push_back(number(Encoding::rle));
  for (const wire::EncodingStats& stats : meta.encoding_stats) meta.encodings.push_back(stats.encoding);
  std::sort(meta.encodings.begin(), meta.encodings.end());
  meta.encodings.erase(std::unique(meta.encodings.begin(), meta.encodings.end()), meta.encodings.end());
}

wire::ColumnChunk column_chunk(Column column, const ChunkFacts& chunk, Codec codec) {
  wire::ColumnChunk out;
  out.file_offset = 0;  // the format's word for: the metadata stands in the footer alone
  wire::ColumnMeta& meta = out.meta;
  meta.type = is_int64(column) ? kTypeInt64 : kTypeByteArray;
  set_encodings(meta, column, chunk);
  meta.path.emplace_back(name_of(column));
  meta.codec = codec == Codec::zstd ? kCodecZstd : kCodecSnappy;
  meta.values = static_cast<std::int64_t>(chunk.values);
  meta.plain_bytes = static_cast<std::int64_t>(chunk.plain_bytes);
  meta.stored_bytes = static_cast<std::int64_t>(chunk.stored_bytes);
  meta.data_page_at = static_cast<std::int64_t>(chunk.at + chunk.dictionary_page_bytes);
  if (chunk.dictionary_page_bytes > 0) meta.__set_dictionary_page_at(static_cast<std::int64_t>(chunk.at));
  meta.__set_statistics(statistics_of(chunk));
  return out;
}

wire::RowGroup row_group(const RowGroupFacts& facts, Codec codec, std::size_t index) {
  wire::RowGroup group;
  std::uint64_t stored = 0;
  for (const Column column : kAllColumns) {
    const ChunkFacts& chunk = facts.chunks[static_cast<std::size_t>(column)];
    group.columns.push_back(column_chunk(column, chunk, codec));
    group.plain_bytes += static_cast<std::int64_t>(chunk.plain_bytes);
    stored += chunk.stored_bytes;
  }
  group.rows = static_cast<std::int64_t>(facts.rows);
  group.__set_file_offset(static_cast<std::int64_t>(facts.chunks.front().at));
  group.__set_stored_bytes(static_cast<std::int64_t>(stored));
  if (index <= static_cast<std::size_t>(std::numeric_limits<std::int16_t>::max()))
    group.__set_ordinal(static_cast<std::int16_t>(index));
  return group;
}

void add_key_value(wire::Footer& footer, std::string key, const std::string& value) {
  wire::KeyValue pair;
  pair.key = std::move(key);
  pair.__set_value(value);
  footer.key_values.push_back(std::move(pair));
}

Error footer_damaged(std::string_view why) {
  return {Errc::corrupt, fmt::format("the Parquet footer is none of ours: {}", why)};
}

bool in_range(std::int64_t at, std::int64_t size, std::uint64_t end) {
  if (at < 0 || size <= 0) return false;
  const auto begin = static_cast<std::uint64_t>(at);
  return begin <= end && static_cast<std::uint64_t>(size) <= end - begin;
}

std::optional<Codec> codec_of(std::int32_t number) {
  if (number == kCodecZstd) return Codec::zstd;
  if (number == kCodecSnappy) return Codec::snappy;
  return std::nullopt;
}

Result<RowGroupPlace> place_of(const wire::RowGroup& group, std::int32_t codec, std::uint64_t pages_end) {
  if (group.rows < 1 || static_cast<std::uint64_t>(group.rows) > kRowGroupRowsMax)
    return footer_damaged(fmt::format("a row group of {} rows", group.rows));
  if (group.columns.size() != kColumns)
    return footer_damaged(fmt::format("a row group of {} columns", group.columns.size()));
  RowGroupPlace place;
  place.rows = static_cast<std::uint64_t>(group.rows);
  for (std::size_t i = 0; i < kColumns; ++i) {
    const wire::ColumnMeta& meta = group.columns[i].meta;
    if (meta.codec != codec) return footer_damaged(fmt::format("codec {} beside {}", meta.codec, codec));
    if (meta.values != group.rows)
      return footer_damaged(fmt::format("{} values in {} rows", meta.values, group.rows));
    const std::int64_t at = meta.__isset.dictionary_page_at ? meta.dictionary_page_at : meta.data_page_at;
    if (!in_range(at, meta.stored_bytes, pages_end))
      return footer_damaged(fmt::format("a chunk of {} bytes at {}", meta.stored_bytes, at));
    place.chunks[i] = {static_cast<std::uint64_t>(at), static_cast<std::uint64_t>(meta.stored_bytes)};
  }
  return place;
}

}  // namespace

std::string_view name_of(Column column) {
  constexpr std::string_view kNames[kColumns] = {"partition", "offset", "transaction_id", "ts", "payload"};
  return kNames[static_cast<std::size_t>(column)];
}

void append_page_header(Bytes& to, const PageFacts& page) {
  wire::PageHeader header;
  header.type = number(page.type);
  header.plain_bytes = static_cast<std::int32_t>(page.plain_bytes);
  header.stored_bytes = static_cast<std::int32_t>(page.stored_bytes);
  if (page.type == PageType::data) {
    wire::DataPage data;
    data.values = static_cast<std::int32_t>(page.values);
    data.encoding = number(page.encoding);
    data.definition_levels = number(Encoding::rle);
    data.repetition_levels = number(Encoding::rle);
    header.__set_data(data);
  } else {
    wire::DictionaryPage dictionary;
    dictionary.values = static_cast<std::int32_t>(page.values);
    dictionary.encoding = number(page.encoding);
    header.__set_dictionary(dictionary);
  }
  append_struct(to, header);
}

Result<std::pair<PageFacts, std::size_t>> read_page_header(BytesView bytes) {
  wire::PageHeader header;
  const auto size = read_struct(bytes.substr(0, kPageHeaderBytesMax), header, "a page header");
  if (!size) return size.error();
  PageFacts page;
  std::int32_t values = -1;
  std::int32_t encoding = -1;
  if (header.type == number(PageType::data) && header.__isset.data) {
    values = header.data.values;
    encoding = header.data.encoding;
  } else if (header.type == number(PageType::dictionary) && header.__isset.dictionary) {
    page.type = PageType::dictionary;
    values = header.dictionary.values;
    encoding = header.dictionary.encoding;
  }
  const bool ours = encoding == number(Encoding::plain) || encoding == number(Encoding::rle_dictionary) ||
                    encoding == number(Encoding::delta_binary_packed);
  if (!ours || values < 1 || header.plain_bytes < 0 || header.stored_bytes < 0)
    return Error{Errc::corrupt,
                 fmt::format("a page of type {}, encoding {}, {} values, {} of {} bytes is none of ours",
                             header.type, encoding, values, header.stored_bytes, header.plain_bytes)};
  page.encoding = static_cast<Encoding>(encoding);
  page.values = static_cast<std::uint32_t>(values);
  page.plain_bytes = static_cast<std::uint32_t>(header.plain_bytes);
  page.stored_bytes = static_cast<std::uint32_t>(header.stored_bytes);
  return std::pair{page, *size};
}

Bytes encode_footer(const FileFacts& file) {
  wire::Footer footer;
  footer.version = kFormatVersion;
  footer.schema = schema();
  for (const RowGroupFacts& facts : file.row_groups) {
    footer.row_groups.push_back(row_group(facts, file.codec, footer.row_groups.size()));
    footer.rows += static_cast<std::int64_t>(facts.rows);
  }
  add_key_value(footer, "queen.envelope", "1");
  if (!file.row_groups.empty()) {
    add_key_value(footer, "queen.queue", file.origin.queue);
    add_key_value(footer, "queen.tenant", file.origin.tenant);
  }
  footer.__isset.key_values = true;
  footer.__set_created_by(
      fmt::format("queen-s3 version {} (build {})", file.origin.product_version, kWriterGeneration));
  wire::ColumnOrder order;
  order.__set_by_type({});
  footer.__set_column_orders(std::vector<wire::ColumnOrder>(kColumns, order));
  Bytes out;
  append_struct(out, footer);
  return out;
}

Result<FilePlan> decode_footer(BytesView footer_bytes, std::uint64_t pages_end) {
  wire::Footer footer;
  const auto size = read_struct(footer_bytes, footer, "the Parquet footer");
  if (!size) return size.error();
  if (*size != footer_bytes.size()) return footer_damaged("bytes are left over");
  if (footer.version != kFormatVersion) return footer_damaged(fmt::format("version {}", footer.version));
  if (footer.schema != schema()) return footer_damaged("the schema");
  FilePlan plan;
  if (footer.row_groups.empty())
    return footer.rows == 0 ? Result<FilePlan>(std::move(plan)) : footer_damaged("rows without a row group");
  const std::int32_t number =
      footer.row_groups.front().columns.empty() ? -1 : footer.row_groups.front().columns.front().meta.codec;
  const auto codec = codec_of(number);
  if (!codec) return footer_damaged(fmt::format("codec {}", number));
  plan.codec = *codec;
  std::uint64_t rows = 0;
  for (const wire::RowGroup& group : footer.row_groups) {
    auto place = place_of(group, number, pages_end);
    if (!place) return std::move(place).error();
    rows += place->rows;
    plan.row_groups.push_back(*place);
  }
  if (static_cast<std::uint64_t>(footer.rows) != rows)
    return footer_damaged(fmt::format("{} rows of which {} stand in row groups", footer.rows, rows));
  return plan;
}

}  // namespace queen::lake
