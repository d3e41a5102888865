#include "base/core_scrub.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace queen {
namespace {

constexpr std::size_t kSecretsMax = 64;
constexpr std::size_t kSecretBytesMin = 8;
constexpr std::size_t kSecretBytesMax = 256;
constexpr std::size_t kFreedHeadBytes = 16;             // what glibc writes into a freed block
constexpr std::uint64_t kRegionBytesMax = 64ULL << 30;  // larger ones are a sanitizer's, and in no core file
constexpr unsigned char kMask = 0xA7;

// A signal handler reaches nothing but what stands still, so this is one of the few globals there are.
// Masked, or it would be the copy that stays.
struct Secret {
  std::size_t size = 0;
  unsigned char masked[kSecretBytesMax] = {};
};
Secret g_secrets[kSecretsMax];
std::size_t g_next = 0;
std::mutex g_mutex;  // guards the writing of both; a handler reads without it
char g_window[64 << 10];

unsigned char at(const Secret& secret, std::size_t index) {
  return static_cast<unsigned char>(secret.masked[index] ^ kMask);
}

// Whether `text` holds the bytes of `secret` from `from` on.
bool holds(const char* text, const Secret& secret, std::size_t from) {
  for (std::size_t i = from; i < secret.size; ++i)
    if (static_cast<unsigned char>(text[i - from]) != at(secret, i)) return false;
  return true;
}

// The number after `text`, in hex; moves behind it.
std::uint64_t read_hex(const char*& text, const char* end) {
  std::uint64_t value = 0;
  for (; text < end; ++text) {
    const char c = *text;
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) break;
    value = value << 4 | static_cast<std::uint64_t>(digit);
  }
  return value;
}

class Scrubber {
 public:
  // Through this file a page that another thread unmaps meanwhile is an error, not a fault.
  Scrubber() : memory_(::open("/proc/self/mem", O_RDWR | O_CLOEXEC)) {}
  ~Scrubber() {
    std::memset(g_window, 0, sizeof g_window);
    if (memory_ >= 0) ::close(memory_);
  }
  Scrubber(const Scrubber&) = delete;
  Scrubber& operator=(const Scrubber&) = delete;

  std::size_t found() const { return found_; }

  // A line of /proc/self/maps: `begin-end rw-p …`.
  void region(const char* line, const char* end) {
    std::uint64_t from = read_hex(line, end);
    if (line + 5 >= end || *line != '-') return;
    ++line;
    const std::uint64_t to = read_hex(line, end);
    const bool writable = line + 4 < end && line[1] == 'r' && line[2] == 'w' && line[4] == 'p';
    if (!writable || to - from > kRegionBytesMax) return;
    while (from < to) {
      const std::size_t wanted = std::min<std::uint64_t>(sizeof g_window, to - from);
      const ssize_t got = ::pread(memory_, g_window, wanted, static_cast<off_t>(from));
      if (got <= 0) return;
      const auto size = static_cast<std::size_t>(got);
      for (const Secret& secret : g_secrets)
        if (secret.size != 0) search(from, size, secret);
      // What stands across the end of this window is whole in the next one.
      const bool last = from + size >= to;
      if (last || size <= kSecretBytesMax) return;
      from += size - kSecretBytesMax;
    }
  }

 private:
  void search(std::uint64_t base, std::size_t size, const Secret& secret) {
    find(base, size, secret, 0);
    if (secret.size >= 2 * kFreedHeadBytes) find(base, size, secret, kFreedHeadBytes);
  }

  void find(std::uint64_t base, std::size_t size, const Secret& secret, std::size_t skip) {
    const std::size_t length = secret.size - skip;
    const char* next = g_window;
    const char* const end = g_window + size;
    while (static_cast<std::size_t>(end - next) >= length) {
      next = static_cast<const char*>(
          std::memchr(next, at(secret, skip), static_cast<std::size_t>(end - next) - length + 1));
      if (next == nullptr) return;
      if (holds(next, secret, skip)) overwrite(base, static_cast<std::size_t>(next - g_window), length);
      ++next;
    }
  }

  void overwrite(std::uint64_t base, std::size_t offset, std::size_t length) {
    char blank[kSecretBytesMax];
    std::memset(blank, 'x', sizeof blank);
    std::memset(g_window + offset, 'x', length);
    if (::pwrite(memory_, blank, length, static_cast<off_t>(base + offset)) > 0) ++found_;
  }

  int memory_;
  std::size_t found_ = 0;
};

void on_fatal_signal(int number) {
  const int kept_errno = errno;
  scrub_secrets();
  errno = kept_errno;
  std::signal(number, SIG_DFL);
  std::raise(number);  // arrives when this handler returns
}

}  // namespace

void keep_out_of_core(std::string_view secret) {
  secret = secret.substr(0, kSecretBytesMax);
  if (secret.size() < kSecretBytesMin) return;
  const std::lock_guard lock(g_mutex);
  for (const Secret& known : g_secrets)
    if (known.size == secret.size() && holds(secret.data(), known, 0)) return;
  Secret& slot = g_secrets[g_next++ % kSecretsMax];
  slot.size = 0;
  for (std::size_t i = 0; i < secret.size(); ++i)
    slot.masked[i] = static_cast<unsigned char>(static_cast<unsigned char>(secret[i]) ^ kMask);
  slot.size = secret.size();
}

std::size_t scrub_secrets() {
  if (std::all_of(std::begin(g_secrets), std::end(g_secrets),
                  [](const Secret& one) { return one.size == 0; }))
    return 0;
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return 0;
  Scrubber scrubber;
  char line[512];
  std::size_t length = 0;
  char piece[1024];
  for (ssize_t got = 0; (got = ::read(maps, piece, sizeof piece)) > 0;) {
    for (ssize_t i = 0; i < got; ++i) {
      if (piece[i] != '\n') {
        if (length < sizeof line) line[length++] = piece[i];
        continue;
      }
      scrubber.region(line, line + length);
      length = 0;
    }
  }
  ::close(maps);
  return scrubber.found();
}

void scrub_secrets_on_fatal_signals() {
  struct sigaction action = {};
  action.sa_handler = on_fatal_signal;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGABRT, SIGSEGV, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGQUIT})
    ::sigaction(number, &action, nullptr);
}

}  // namespace queen
