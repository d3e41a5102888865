// The readers behind open_object().
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "lake/record_reader.h"

namespace queen::lake {

// `object` is borrowed for the life of the reader. Errors: unavailable (no memory).
Result<std::unique_ptr<RecordReader>> open_jsonl(Codec codec, BytesView object);
// Errors: corrupt (the footer).
Result<std::unique_ptr<RecordReader>> open_parquet(BytesView object);

}  // namespace queen::lake
