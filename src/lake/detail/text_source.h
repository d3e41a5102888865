// The text of a JSONL object, inflated block by block.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "lake/record_writer.h"

namespace queen::lake {

class TextSource {
 public:
  virtual ~TextSource() = default;
  // Appends up to kTextBlockBytes more of the text; false behind its end. Errors: corrupt (damaged, cut off,
  // or bytes behind the end).
  virtual Result<bool> read(Bytes& to) = 0;
};
inline constexpr std::size_t kTextBlockBytes = 256 << 10;

// `object` is borrowed for the life of the source. `codec` is one of zstd, gzip, none. What a window of zstd
// takes is limited to what our writers use. Errors: unavailable (no memory).
Result<std::unique_ptr<TextSource>> make_text_source(Codec codec, BytesView object);

}  // namespace queen::lake
