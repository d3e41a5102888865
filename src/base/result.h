// What a call that can fail gives back. docs/decisions.md "Errors" says why there are no exceptions.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace queen {

// What the caller should do next, not where it happened.
enum class Errc : std::uint8_t {
  invalid,      // the input is wrong: fix it, do not repeat
  not_found,    // the thing named does not exist
  conflict,     // somebody else's change won: look again
  busy,         // not now: repeat
  full,         // no space: free some, then repeat
  corrupt,      // bytes that must be right are wrong: stop and say so
  unavailable,  // a peer, disk or service does not answer: repeat later
};

struct Error {
  Errc code = Errc::invalid;
  std::string what;   // one sentence for a person: names the field or file, the value and the limit
  int sys_errno = 0;  // errno of the call that failed, 0 when none did
};

template <class T>
struct [[nodiscard]] Result : tl::expected<T, Error> {
  using tl::expected<T, Error>::expected;
  Result(Error error)
      : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}  // NOLINT: implicit by design
};

using Status = Result<void>;

// For the rare result that may be dropped; `why` is for the reader.
template <class T>
void ignore(const Result<T>&, const char* /*why*/) {}

}  // namespace queen
