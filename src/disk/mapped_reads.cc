#include "disk/mapped_reads.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>

namespace queen::disk {
namespace {

constexpr std::size_t kSlots = 256;
constexpr std::size_t kNoSlot = kSlots;

struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<const char*> begin{nullptr};
  std::atomic<std::size_t> size{0};
  std::atomic<const char*> path{nullptr};
};

// The two things of the process that cannot be passed in: a signal handler has no other way to its data.
constinit std::array<Slot, kSlots> slots;
constinit struct sigaction segv_before{};

// Everything below runs inside a signal handler: no allocation, no lock, no stdio.
class Line {
 public:
  void add(const char* text) {
    for (; *text != '\0' && used_ < sizeof text_ - 1; ++text) text_[used_++] = *text;
  }
  void add(std::size_t number) {
    char digits[24];
    std::size_t at = sizeof digits;
    digits[--at] = '\0';
    do digits[--at] = static_cast<char>('0' + number % 10);
    while ((number /= 10) > 0);
    add(digits + at);
  }
  void write() {
    text_[used_++] = '\n';
    // There is nobody to tell when stderr is gone.
    if (::write(STDERR_FILENO, text_, used_) < 0) return;
  }

 private:
  char text_[1024];
  std::size_t used_ = 0;
};

const Slot* slot_of(const char* address) {
  for (const Slot& slot : slots) {
    const char* begin = slot.begin.load(std::memory_order_acquire);
    if (begin != nullptr && address >= begin && address < begin + slot.size.load()) return &slot;
  }
  return nullptr;
}

void on_fault(int signal, siginfo_t* info, void* /*context*/) {
  const auto* address = static_cast<const char*>(info->si_addr);
  const Slot* slot = slot_of(address);
  if (slot == nullptr && signal == SIGSEGV) {
    // Not ours: the instruction is tried again and meets the handler that was there before.
    ::sigaction(SIGSEGV, &segv_before, nullptr);
    return;
  }
  Line line;
  line.add("FATAL: bus error while reading ");
  line.add(slot == nullptr ? "a mapped file" : slot->path.load());
  if (slot != nullptr) {
    line.add(" at byte ");
    line.add(static_cast<std::size_t>(address - slot->begin.load()));
  }
  line.add(": the device failed or the file was cut; the process ends");
  line.write();
  ::_exit(1);
}

}  // namespace

void end_process_on_bus_errors() {
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
  ::sigaction(SIGSEGV, &action, &segv_before);
}

ReadingMapped::ReadingMapped(const Mapping& mapping) : slot_(kNoSlot) {
  const BytesView bytes = mapping.bytes();
  // Threads start at different places, so that they seldom meet.
  const std::size_t start = reinterpret_cast<std::uintptr_t>(this) / 4096;
  for (std::size_t i = 0; i < kSlots; ++i) {
    Slot& slot = slots[(start + i) % kSlots];
    if (slot.taken.load(std::memory_order_relaxed) || slot.taken.exchange(true, std::memory_order_acquire))
      continue;
    slot_ = (start + i) % kSlots;
    slot.path.store(mapping.path(), std::memory_order_relaxed);
    slot.size.store(bytes.size(), std::memory_order_relaxed);
    slot.begin.store(bytes.data(), std::memory_order_release);
    // The handler runs in this very thread: only the compiler could move a read before the declaration.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return;
  }
}

ReadingMapped::~ReadingMapped() {
  if (slot_ == kNoSlot) return;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  slots[slot_].begin.store(nullptr, std::memory_order_relaxed);
  slots[slot_].taken.store(false, std::memory_order_release);
}

}  // namespace queen::disk
