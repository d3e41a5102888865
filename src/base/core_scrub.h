// Keeps secrets out of core files. A copy of a secret may stand anywhere: in the environment, in a string of
// a library, in memory that was freed. So nothing tries to keep track of them: when a fatal signal is about
// to dump the process, its memory is searched and every copy is overwritten first.
#pragma once

#include <cstddef>
#include <string_view>

namespace queen {

// From now on scrub_secrets() overwrites `secret`. Thread-safe. Ignored: shorter than 8 bytes (that would hit
// what is no secret), or known already. Of a longer one than 256 bytes the first 256 count. The latest 64 are
// kept.
void keep_out_of_core(std::string_view secret);

// Overwrites every copy in the writable private memory of this process, also one whose first 16 bytes the
// allocator has used since. Returns how many. Async-signal-safe; other threads may run meanwhile.
std::size_t scrub_secrets();

// Handlers for SIGABRT, SIGSEGV, SIGILL, SIGFPE, SIGTRAP, SIGSYS and SIGQUIT: scrub_secrets(), then what the
// signal does by default. Once, at boot. A stack that has overflown has no room for one, so its core file is
// written as it is.
void scrub_secrets_on_fatal_signals();

}  // namespace queen
