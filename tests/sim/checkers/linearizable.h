// Whether what clients were answered about one key can be explained by some order in which its operations
// took effect, each between its call and its answer (linearizability; Wing and Gong's search). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace queen::sim {

enum class KvKind : std::uint8_t { put, put_if_absent, del, incr, get };

struct KvRow {
  std::string value;
  std::uint64_t version = 0;  // unique per write that took effect; compared for equality only; 0: no row
  bool operator==(const KvRow&) const = default;
};

// When a row with a lifetime goes: not before `earliest`, and it is gone for whatever is called after
// `latest`.
struct KvLifetime {
  std::int64_t earliest = 0;
  std::int64_t latest = 0;  // INT64_MAX where it is not known when the write took effect
};

struct KvAnswer {
  bool applied = false;  // of a write: it took effect. A get: not used
  // What the answer shows: of a put, a put_if_absent and an increment that took effect the row written
  // (must be there), of a delete that did the row deleted, of a write that did not the row as it stands, of
  // a get what it found (must be there). Nothing: the answer does not say. Version 0: it says that there is
  // none.
  std::optional<KvRow> row;
};

// Times are of one clock, in any unit. An operation that certainly did nothing is left out of a history.
struct KvCall {
  KvKind kind = KvKind::get;
  std::string value;                    // put, put_if_absent
  std::int64_t delta = 0;               // incr: of a whole number, from 0 where there is no row
  std::optional<std::uint64_t> expect;  // put, del: the version that the row must have, 0 = no row
  std::optional<KvLifetime> lifetime;   // of the row that it writes; an increment of a row keeps the row's
  std::int64_t called = 0;
  std::optional<std::int64_t> returned;  // nothing: it may take effect at any time from its call, or never
  KvAnswer answer;                       // when it returned
};

enum class Explained : std::uint8_t {
  yes,
  no,
  undecided,  // the search was given up
};

struct Explanation {
  Explained explained = Explained::yes;
  // With `no`: the answers up to and including the first that nothing explains, and what was called until
  // then, one line each in order of call, that answer marked.
  std::size_t answers = 0;
  std::string text;
};

// The key has no row at first. Takes at most `steps_max` steps for each prefix that it looks at.
Explanation check_linearizable(std::span<const KvCall> history, std::size_t steps_max = 5'000'000);

}  // namespace queen::sim
