// Hashes of OpenSSL behind plain functions. Binary results are raw bytes; none of them can fail on input.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"

namespace queen::s3 {

std::string sha256_hex(BytesView bytes);            // 64 lower-case hex digits
Bytes md5_raw(BytesView bytes);                     // 16 bytes
Bytes hmac_sha256(BytesView key, BytesView bytes);  // 32 bytes

}  // namespace queen::s3
