// The counters of queues against the rows they sum up.
#pragma once

#include <functional>
#include <string_view>

#include "store/view.h"

namespace queen::machine::detail {

// A queue counts its dead letters, the bytes its partitions retain, and the stamp of its newest push. What
// consumers did is not counted but computed from their cursors. Calls `tell` for each counter that is wrong.
void check_counters(const store::View& view,
                    const std::function<void(BytesView key, std::string_view what)>& tell);

}  // namespace queen::machine::detail
