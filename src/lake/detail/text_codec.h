// Turns a text held in pieces into the bytes of an object. Every knob that can move a byte is pinned in the
// .cc file (docs/formats/lake.md, "Codecs").
#pragma once

#include <deque>

#include "base/bytes.h"
#include "base/result.h"
#include "lake/record_writer.h"

namespace queen::lake {

// The text is `pieces` joined. Consumes it: a piece is freed as soon as it has gone through the codec, so
// that text and object are never both whole in memory. Where the pieces are cut may move a byte of the
// result, so a writer cuts by a rule of the records alone. Errors: unavailable (the codec has no memory).
Result<Bytes> encode_text(Codec codec, std::deque<Bytes> pieces);

}  // namespace queen::lake
