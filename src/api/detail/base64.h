// Base64 as clients send it: the standard alphabet, padded, nothing else (RFC 4648, 3.5 and 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace queen::api {

// Nothing for other characters, a missing or misplaced padding, or bits that are set behind the last byte.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace queen::api
