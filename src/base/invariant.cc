#include "base/invariant.h"

#include <execinfo.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/clock.h"
#include "base/text.h"

namespace queen {

void invariant_failed(const char* condition, const char* file, int line, std::string_view text) {
  const std::string out = fmt::format("{} ERROR panic: {} fatal=true condition={} location={}:{}\n",
                                      iso_micros(SystemClock{}.wall_us()), text, condition, file, line);
  std::fwrite(out.data(), 1, out.size(), stdout);
  std::fflush(stdout);
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  std::abort();
}

}  // namespace queen
