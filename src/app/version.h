// The product's version, in one place.
#pragma once

#include <string_view>

namespace queen::app {

inline constexpr std::string_view kVersion = QUEEN_VERSION;

}  // namespace queen::app
