#include "qlog/detail/part_table.h"

#include <algorithm>

#include "base/invariant.h"
#include "qlog/detail/merge.h"

namespace queen::qlog::detail {

void PartTable::judge_entry(std::vector<EntryPart>& parts) {
  std::ranges::sort(parts, {}, &EntryPart::log);
  ignore(check_parts(parts, judge_), "the judge goes on");
}

void PartTable::add(const EntryPart& part) {
  // An entry of one log has nothing to be compared with; that it is whole is judged with its record.
  if (part.seq < from_ || part.seq >= to_ || (part.copies == 1 && part.whole)) return;
  waiting_[part.seq].push_back(part);
  ++parts_;
  while (parts_ > parts_max_ && waiting_.size() > 1) {
    const auto last = std::prev(waiting_.end());
    to_ = last->first;
    parts_ -= last->second.size();
    waiting_.erase(last);
  }
}

bool PartTable::next_pass() {
  for (auto& [seq, parts] : waiting_) judge_entry(parts);
  waiting_.clear();
  parts_ = 0;
  if (to_ == ~std::uint64_t{0}) return false;
  from_ = to_;
  to_ = ~std::uint64_t{0};
  return true;
}

}  // namespace queen::qlog::detail
