// Assertions that stay on in production. Never for input: bytes from a client, a peer, a file or a bucket are
// checked and answered with an Error.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace queen {

// Logs `text` on target `panic` with a backtrace and aborts the process (exit status 134).
[[noreturn]] void invariant_failed(const char* condition, const char* file, int line, std::string_view text);

}  // namespace queen

// INVARIANT(cond, "format", values…): one condition, no side effects.
#define INVARIANT(cond, ...)                                                            \
  do {                                                                                  \
    if (!(cond)) [[unlikely]]                                                           \
      ::queen::invariant_failed(#cond, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)
