#include "app/process_use.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace queen::app {
namespace {

std::int64_t micros(const timeval& time) {
  return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_usec;
}

}  // namespace

broker::ProcessUse SystemProcessProbe::use() {
  broker::ProcessUse out;
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) == 0) {
    out.cpu_user_us = micros(used.ru_utime);
    out.cpu_system_us = micros(used.ru_stime);
  }
  // proc(5): size, resident, in pages.
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  if (file >> size >> resident) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    out.virtual_bytes = size * page;
    out.rss_bytes = resident * page;
  }
  return out;
}

}  // namespace queen::app
