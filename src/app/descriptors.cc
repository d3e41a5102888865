#include "app/descriptors.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <memory>

namespace queen::app {
namespace {

constexpr std::int64_t kCountEveryUs = 5'000'000;

std::uint64_t count_open() {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir("/proc/self/fd"), ::closedir);
  if (!stream) return 0;
  std::uint64_t entries = 0;
  while (::readdir(stream.get()) != nullptr) ++entries;
  return entries > 3 ? entries - 3 : 0;  // without `.`, `..` and the stream itself
}

}  // namespace

DescriptorLimit raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  DescriptorLimit out{limit.rlim_cur, limit.rlim_cur};
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) out.now = limit.rlim_cur;
  return out;
}

std::optional<std::string> DescriptorWatch::warning() {
  const std::lock_guard lock(mutex_);
  const std::int64_t now = clock_.mono_us();
  if (!counted_at_ || now >= *counted_at_ + kCountEveryUs) {
    open_ = count_open();
    counted_at_ = now;
  }
  if (open_ < limit_ / 5 * 4) return std::nullopt;
  return fmt::format("{} of {} descriptors are open", open_, limit_);
}

}  // namespace queen::app
