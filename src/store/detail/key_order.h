// Neighbours of a key in byte order.
#pragma once

#include <optional>

#include "base/bytes.h"

namespace queen::store::detail {

std::size_t common_prefix(BytesView a, BytesView b);
// The smallest key above every key that starts with `prefix`; nothing when there is none.
std::optional<Bytes> above_prefix(BytesView prefix);
// The shortest key that is above `low` and not above `high`, which must be above `low`.
Bytes separator(BytesView low, BytesView high);
// The largest key of at most kKeyBytesMax bytes that is below `key`, which must not be empty.
Bytes key_below(BytesView key);

}  // namespace queen::store::detail
