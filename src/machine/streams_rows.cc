#include "machine/detail/streams_rows.h"

#include <algorithm>

#include "base/invariant.h"
#include "store/keys.h"

namespace queen::machine::detail {
namespace {

using store::Keyspace;

// The first key behind all that start with `prefix`; empty when there is none.
Bytes behind(Bytes prefix) {
  while (!prefix.empty() && prefix.back() == '\xFF') prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

}  // namespace

std::vector<Bytes> streams_state_of(const store::View& view, Pid pid, std::size_t most) {
  std::vector<Bytes> found;
  Bytes from;
  bool more = most > 0;
  while (more) {
    Bytes next;
    view.scan(Keyspace::streams_state, {}, from, [&](BytesView key, BytesView) {
      const auto name = store::parse_streams_state_key(key);
      INVARIANT(name.has_value(), "a key of streams_state is damaged");
      if (name->pid == pid) {
        found.emplace_back(key);
        return found.size() < most;
      }
      // Within this query the partition's rows are ahead, or there are none left.
      next = name->pid < pid ? store::streams_state_prefix(name->query_id, pid)
                             : behind(store::streams_state_prefix(name->query_id));
      return false;
    });
    more = !next.empty() && found.size() < most;
    from = std::move(next);
  }
  return found;
}

}  // namespace queen::machine::detail
