// The metadata of a Parquet file, as far as our writer fills it in and our reader looks at it. Names are ours;
// field ids and types are the format's (docs/formats/lake.md, "Parquet"). What the format calls an enum is an i32
// here, which is the same on the wire: a value out of a hostile file then is a number to be checked, not an
// enumerator that cannot exist. What is left out here is skipped on reading.
namespace cpp queen.lake.wire

struct Nothing {}

union TimeUnit {
  1: Nothing millis
  2: Nothing micros
  3: Nothing nanos
}
struct TimestampType {
  1: required bool adjusted_to_utc
  2: required TimeUnit unit
}
union LogicalType {
  1: Nothing text
  8: TimestampType timestamp
}
struct SchemaElement {
  1: optional i32 type
  3: optional i32 repetition
  4: required string name
  5: optional i32 children
  6: optional i32 converted_type
  10: optional LogicalType logical_type
}

struct Statistics {
  3: optional i64 null_count
  5: optional binary max_value
  6: optional binary min_value
  7: optional bool max_is_exact
  8: optional bool min_is_exact
}
struct EncodingStats {
  1: required i32 page_type
  2: required i32 encoding
  3: required i32 count
}
struct ColumnMeta {
  1: required i32 type
  2: required list<i32> encodings
  3: required list<string> path
  4: required i32 codec
  5: required i64 values
  6: required i64 plain_bytes
  7: required i64 stored_bytes
  9: required i64 data_page_at
  11: optional i64 dictionary_page_at
  12: optional Statistics statistics
  13: optional list<EncodingStats> encoding_stats
}
struct ColumnChunk {
  2: required i64 file_offset
  3: required ColumnMeta meta
}
struct RowGroup {
  1: required list<ColumnChunk> columns
  2: required i64 plain_bytes
  3: required i64 rows
  5: optional i64 file_offset
  6: optional i64 stored_bytes
  7: optional i16 ordinal
}

struct KeyValue {
  1: required string key
  2: optional string value
}
union ColumnOrder {
  1: Nothing by_type
}
struct Footer {
  1: required i32 version
  2: required list<SchemaElement> schema
  3: required i64 rows
  4: required list<RowGroup> row_groups
  5: optional list<KeyValue> key_values
  6: optional string created_by
  7: optional list<ColumnOrder> column_orders
}

struct DataPage {
  1: required i32 values
  2: required i32 encoding
  3: required i32 definition_levels
  4: required i32 repetition_levels
}
struct DictionaryPage {
  1: required i32 values
  2: required i32 encoding
}
struct PageHeader {
  1: required i32 type
  2: required i32 plain_bytes
  3: required i32 stored_bytes
  5: optional DataPage data
  7: optional DictionaryPage dictionary
}
