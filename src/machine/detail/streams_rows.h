// The streams state of one partition, which is scattered over the queries that read it.
#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "store/view.h"

namespace queen::machine::detail {

// At most `most` keys of `streams_state` that belong to the partition, in the order of the table. Looks once
// or twice into the rows of each query that has any, not at all of them.
std::vector<Bytes> streams_state_of(const store::View& view, Pid pid, std::size_t most);

}  // namespace queen::machine::detail
