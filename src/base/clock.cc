#include "base/clock.h"

#include <ctime>

namespace queen {
namespace {
std::int64_t read_us(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
}
}  // namespace

std::int64_t SystemClock::wall_us() {
  return read_us(CLOCK_REALTIME);
}
std::int64_t SystemClock::mono_us() {
  return read_us(CLOCK_MONOTONIC);
}

}  // namespace queen
