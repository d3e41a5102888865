// One line of a JSONL object back into a record.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "lake/record_reader.h"

namespace queen::lake {

// `line` without its line feed. Takes what our writer writes, nothing else; of the payload it is only asked
// that there is one. Errors: corrupt, naming the field.
Result<ReadRecord> read_json_line(BytesView line);

}  // namespace queen::lake
