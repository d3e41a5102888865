// What the lake's zstd frames are made with.
#pragma once

#include <zstd.h>

#include <memory>

#include "base/result.h"

namespace queen::lake {

using ZstdContext = std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)>;

// A context of level 3 with each of its parameters set by its value; a content checksum and the content size
// in each frame. Errors: unavailable (no memory).
Result<ZstdContext> make_zstd_context();

}  // namespace queen::lake
