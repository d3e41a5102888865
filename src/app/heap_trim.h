// Memory that the heap keeps after a burst goes back to the system. glibc gives back the top of each arena
// only; a million new partitions leave a third of the heap free in between (malloc_trim(3) returns such pages
// as well).
#pragma once

#include <cstdint>
#include <functional>

namespace queen::app {

// When to trim: walking the heap stalls whoever allocates meanwhile, so it waits until the process has
// stopped growing, or has grown by a quarter since the last time. Calls from one thread.
class HeapTrim {
 public:
  static constexpr std::int64_t kEveryUs = 1'000'000;  // between two calls of tick()
  static constexpr std::uint64_t kWorthwhile = 16ULL << 20;

  // `resident` gives the bytes of anonymous memory in RAM, `trim` gives back what is free.
  HeapTrim(std::function<std::uint64_t()> resident, std::function<void()> trim)
      : resident_(std::move(resident)), trim_(std::move(trim)) {}
  // True when it trimmed.
  bool tick();

 private:
  std::function<std::uint64_t()> resident_;
  std::function<void()> trim_;
  std::uint64_t kept_ = 0;  // resident after the last trim
  std::uint64_t last_ = 0;  // resident at the last tick
};

// Resident anonymous bytes of this process; 0 when the system does not say.
std::uint64_t resident_anonymous_bytes();
// Gives free pages of the heap back to the system.
void trim_heap();

}  // namespace queen::app
