#include "cli/json_line.h"

namespace queen::cli {

std::string json_bytes(std::string_view bytes) {
  if (is_utf8(bytes)) return json_string(bytes);
  return "{\"hex\":\"" + hex_lower(bytes) + "\"}";
}

}  // namespace queen::cli
