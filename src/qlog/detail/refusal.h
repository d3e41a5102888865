// The texts of the boot refusals of storage.md 14: what is damaged, and what the operator can do.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"

namespace queen::qlog::detail {

inline constexpr std::string_view kRepair =
    "restore a backup of the data directory, or, in a cluster, empty this node's directory and let it rejoin";

template <class... Values>
Error refusal(fmt::format_string<Values...> format, Values&&... values) {
  return {Errc::corrupt,
          fmt::format("{}; {}", fmt::format(format, std::forward<Values>(values)...), kRepair)};
}

}  // namespace queen::qlog::detail
