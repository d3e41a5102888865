#include "cli/data_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace queen::cli {

SharedHold::~SharedHold() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::unique_ptr<SharedHold>> hold_directory(const std::string& directory) {
  std::error_code why;
  if (!std::filesystem::is_directory(directory, why))
    return Error{Errc::not_found, fmt::format("{} is not a directory", directory)};
  if (!std::filesystem::exists(directory + "/store", why) &&
      !std::filesystem::exists(directory + "/qlog", why))
    return Error{Errc::not_found,
                 fmt::format("{} is not a data directory: it has neither store/ nor qlog/", directory)};
  const std::string path = directory + "/LOCK";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno != ENOENT)
    return Error{Errc::unavailable, fmt::format("{}: {}", path, std::strerror(errno)), errno};
  auto held = std::make_unique<SharedHold>(fd);
  if (fd < 0 || ::flock(fd, LOCK_SH | LOCK_NB) == 0) return held;
  if (errno != EWOULDBLOCK)
    return Error{Errc::unavailable, fmt::format("locking {}: {}", path, std::strerror(errno)), errno};
  return Error{Errc::busy, fmt::format("{} is in use by a running node: stop the node, or look at a copy that "
                                       "was made while it stood still",
                                       directory)};
}

}  // namespace queen::cli
