// The writers behind make_writer().
#pragma once

#include <memory>

#include "lake/detail/parquet_meta.h"
#include "lake/record_writer.h"

namespace queen::lake {

std::unique_ptr<RecordWriter> make_jsonl_writer(Codec codec);

// Where row groups close. Objects of the product have these limits; tests and samples may have smaller ones.
struct RowGroupLimits {
  std::uint64_t rows = kRowGroupRowsMax;
  std::uint64_t bytes = kRowGroupBytesMax;  // of values before compression; one record above it is a group
};
std::unique_ptr<RecordWriter> make_parquet_writer(Codec codec, Origin origin, RowGroupLimits limits = {});

}  // namespace queen::lake
