// Parts of entries that several logs hold, put together to compare what recovery no longer reads. Bounded: what
// does not fit waits for another pass over the logs.
#pragma once

#include <map>
#include <vector>

#include "qlog/detail/inspect.h"

namespace queen::qlog::detail {

class PartTable {
 public:
  PartTable(std::size_t parts_max, Judge& judge) : parts_max_(parts_max), judge_(judge) {}

  // Only what the present pass is about is kept.
  void add(const EntryPart& part);
  // Judges what this pass collected and begins the next. False: nothing is left to look at.
  bool next_pass();

 private:
  void judge_entry(std::vector<EntryPart>& parts);

  const std::size_t parts_max_;
  Judge& judge_;
  std::map<std::uint64_t, std::vector<EntryPart>> waiting_;  // by seq
  std::size_t parts_ = 0;
  std::uint64_t from_ = 0, to_ = ~std::uint64_t{0};  // seqs of this pass, `to_` exclusive
};

}  // namespace queen::qlog::detail
