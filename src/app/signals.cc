#include "app/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <thread>

namespace queen::app {

sigset_t block_stop_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int wait_for_stop(const sigset_t& signals) {
  int number = 0;
  while (sigwait(&signals, &number) != 0) {
  }
  return number;
}

void stop_at_once_on_next(const sigset_t& signals) {
  std::thread([signals] {
    wait_for_stop(signals);
    _exit(1);
  }).detach();
}

}  // namespace queen::app
