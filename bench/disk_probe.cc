// What the disk itself can do: 4 KiB appends each made durable, and 1 MiB appends each made durable.
//   disk_probe DIRECTORY SECONDS     one JSON line on stdout
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using Seconds = std::chrono::duration<double>;

struct Rate {
  double per_second = 0;
  double bytes_per_second = 0;
};

Rate append_and_sync(const std::string& path, std::size_t bytes, double seconds) {
  const int fd = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0640);
  if (fd < 0) {
    fmt::print(stderr, "disk_probe: cannot open {}\n", path);
    std::exit(1);
  }
  // Bytes that do not compress away below the file system.
  std::vector<char> block(bytes);
  unsigned state = 12345;
  for (char& c : block) c = static_cast<char>((state = state * 1103515245U + 12345U) >> 16);
  const auto start = std::chrono::steady_clock::now();
  std::size_t count = 0;
  Seconds passed{};
  while (passed.count() < seconds) {
    if (::write(fd, block.data(), block.size()) != static_cast<ssize_t>(block.size()) ||
        ::fdatasync(fd) != 0) {
      fmt::print(stderr, "disk_probe: write or fdatasync failed\n");
      std::exit(1);
    }
    ++count;
    passed = std::chrono::steady_clock::now() - start;
  }
  ::close(fd);
  ::unlink(path.c_str());
  return {static_cast<double>(count) / passed.count(), static_cast<double>(count * bytes) / passed.count()};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: disk_probe DIRECTORY SECONDS\n");
    return 2;
  }
  const std::string path = std::string(argv[1]) + "/disk_probe.tmp";
  const double seconds = std::atof(argv[2]);
  const Rate small = append_and_sync(path, 4096, seconds);
  const Rate large = append_and_sync(path, 1 << 20, seconds);
  fmt::print("{{\"fdatasync_per_s\":{:.0f},\"write_mib_per_s\":{:.1f}}}\n", small.per_second,
             large.bytes_per_second / (1 << 20));
  return 0;
}
