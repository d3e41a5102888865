// SIGTERM and SIGINT as a wait, instead of handlers.
#pragma once

#include <csignal>

namespace queen::app {

// Blocks both signals in this thread and every thread it starts. Call before any other thread exists; SIGPIPE
// is ignored.
sigset_t block_stop_signals();
// Waits for one of them; returns its number.
int wait_for_stop(const sigset_t& signals);
// From now on a further stop signal ends the process at once, status 1.
void stop_at_once_on_next(const sigset_t& signals);

}  // namespace queen::app
