// A data directory that is only looked at.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace queen::cli {

// Held until destroyed: no node starts on the directory meanwhile.
class SharedHold {
 public:
  explicit SharedHold(int fd) : fd_(fd) {}
  ~SharedHold();
  SharedHold(const SharedHold&) = delete;
  SharedHold& operator=(const SharedHold&) = delete;

 private:
  int fd_;  // -1: there is no LOCK
};

// Whether `directory` is a data directory that no node has open. Changes nothing: a LOCK that is not there is
// not made. Errors: not_found (no data directory), busy (a node has it open), unavailable.
Result<std::unique_ptr<SharedHold>> hold_directory(const std::string& directory);

}  // namespace queen::cli
