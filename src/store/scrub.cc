#include "store/scrub.h"

namespace queen::store {

Result<Scrub::Step> Scrub::step(std::size_t rows_max) {
  auto verified = part_ == Part::file ? file_.verify(place_, rows_max) : store_.verify(place_, rows_max);
  if (!verified) return std::move(verified).error();
  Step out{verified->rows, false};
  if (verified->next) {
    place_ = std::move(*verified->next);
    return out;
  }
  place_ = {};
  out.pass_done = part_ == Part::memory;
  part_ = part_ == Part::file ? Part::memory : Part::file;
  return out;
}

}  // namespace queen::store
