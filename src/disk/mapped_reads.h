// What happens when a mapped file cannot be read: storage.md CR-4.
#pragma once

#include "disk/disk.h"

namespace queen::disk {

// A device error under a mapping arrives as a signal in the thread that reads, where no error can be
// returned. From this call on SIGBUS, and SIGSEGV inside a range that ReadingMapped declared, print one line
// with the file and the position on stderr and end the process with status 1, without unwinding. A SIGSEGV
// elsewhere goes to whoever handled it before. Once per process, before threads that read mappings start.
void end_process_on_bus_errors();

// Declares for its lifetime that this thread reads `mapping` (borrowed). Lock-free, 256 slots for the
// process; a read that finds none is not declared, and its bus error ends the process without the file's
// name.
class ReadingMapped {
 public:
  explicit ReadingMapped(const Mapping& mapping);
  ReadingMapped(const ReadingMapped&) = delete;
  ReadingMapped& operator=(const ReadingMapped&) = delete;
  ~ReadingMapped();

 private:
  std::size_t slot_;
};

}  // namespace queen::disk
