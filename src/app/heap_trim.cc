#include "app/heap_trim.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace queen::app {

bool HeapTrim::tick() {
  const std::uint64_t resident = resident_();
  const bool growing = resident > last_ + last_ / 100;
  last_ = resident;
  kept_ = std::min(kept_ == 0 ? resident : kept_, resident);  // what went by itself needs no trim
  if (resident < kept_ + kWorthwhile) return false;
  if (growing && resident < kept_ + kept_ / 4 + 4 * kWorthwhile) return false;
  trim_();
  kept_ = last_ = resident_();
  return true;
}

std::uint64_t resident_anonymous_bytes() {
  // proc(5): size, resident, shared, in pages.
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, resident = 0, shared = 0;
  if (!(file >> size >> resident >> shared)) return 0;
  return (resident - std::min(resident, shared)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void trim_heap() {
  ::malloc_trim(0);
}

}  // namespace queen::app
