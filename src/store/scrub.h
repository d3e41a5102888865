// A pass over everything that the store holds, in steps: first the rows of the checkpoint file, then those in
// RAM (CR-2). What was right in RAM and is wrong in the file is found here, not by the restart that needs it.
#pragma once

#include <cstdint>

#include "store/checkpoint_file.h"
#include "store/store.h"

namespace queen::store {

// One thread: that of the checkpoint file. The caller paces the steps.
class Scrub {
 public:
  // Both must outlive the scrub.
  Scrub(const Store& store, CheckpointFile& file) : store_(store), file_(file) {}

  struct Step {
    std::size_t rows = 0;
    bool pass_done = false;  // the next step begins another pass
  };
  // Verifies at most `rows_max` rows (at least 1) under one read transaction of the file or one read gate.
  // Errors: corrupt: names keyspace, key and what failed; others: the file cannot be read.
  Result<Step> step(std::size_t rows_max);

 private:
  enum class Part : std::uint8_t { file, memory };

  const Store& store_;
  CheckpointFile& file_;
  Part part_ = Part::file;
  RowPlace place_;
};

}  // namespace queen::store
