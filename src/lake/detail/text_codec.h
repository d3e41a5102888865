// Turns a text that comes in pieces into the bytes of an object. Every knob that can move a byte is pinned in
// the .cc file (docs/formats/lake.md, "Codecs").
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "lake/record_writer.h"

namespace queen::lake {

// Builds one object; single use, not thread-safe. Holds what the codec made of the pieces so far and, beside
// that, no more of the text than the codec's window. Where the pieces are cut may move a byte of the result,
// so a writer cuts by a rule of the records alone.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  // The next piece, at least kPieceBytes, when another one follows. Leaves it empty; its memory may stay for
  // the next piece. Errors: unavailable (the codec has no memory).
  virtual Status add(Bytes& piece) = 0;
  // The last piece (empty only when it is the only one). Returns the object. Errors as add().
  virtual Result<Bytes> finish(Bytes last) = 0;
};

// A piece is closed by the first record that reaches this size.
inline constexpr std::size_t kPieceBytes = 4 << 20;

// `codec` is one that JSONL has: zstd, gzip or none.
std::unique_ptr<TextEncoder> make_text_encoder(Codec codec);

}  // namespace queen::lake
