#include "linearizable.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace queen::sim {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

// One thing that may happen next: a call of the history, or the end of the lifetime of a row that one wrote.
struct Step {
  const KvCall* call = nullptr;
  std::size_t ends = kNobody;  // the step whose row goes; kNobody for a call
  std::int64_t from = 0;
  std::int64_t to = kNever;  // must have happened before whatever begins later
  bool answered = false;
};

// The row as one order of steps leaves it.
struct Stand {
  bool there = false;
  std::string value;
  std::uint64_t version = 0;  // 0: of a write without an answer, not seen by anybody yet
  std::size_t lifetime_of = kNobody;
  std::vector<std::uint64_t> seen;  // versions given to writes without an answer
};

std::optional<std::int64_t> number(const Stand& stand) {
  std::int64_t out = 0;
  if (!stand.there) return 0;
  const char* const end = stand.value.data() + stand.value.size();
  const auto [at, error] = std::from_chars(stand.value.data(), end, out);
  if (error != std::errc() || at != end) return std::nullopt;
  return out;
}

bool changes(const KvCall& call) {
  return call.kind != KvKind::get;
}

// Of those that change the row, the ones that leave one of a new version.
bool writes(const KvCall& call) {
  return changes(call) && call.kind != KvKind::del;
}

std::optional<std::uint64_t> expected(const KvCall& call) {
  if (call.kind == KvKind::put_if_absent) return 0;
  return call.kind == KvKind::incr || call.kind == KvKind::get ? std::nullopt : call.expect;
}

class Search {
 public:
  Search(std::vector<Step> steps, std::size_t steps_max) : steps_(std::move(steps)), left_(steps_max) {
    done_.resize(steps_.size());
    for (const Step& step : steps_)
      if (step.answered && writes(*step.call) && step.call->answer.applied && step.call->answer.row)
        answered_.push_back(step.call->answer.row->version);
    std::ranges::sort(answered_);
  }

  Explained run() {
    const auto twice = std::ranges::adjacent_find(
        answered_, [](std::uint64_t a, std::uint64_t b) { return a == b && a != 0; });
    if (twice != answered_.end()) return Explained::no;
    if (explain(Stand{})) return Explained::yes;
    return left_ == 0 ? Explained::undecided : Explained::no;
  }

 private:
  bool explain(const Stand& stand) {
    std::int64_t latest = kNever;
    bool open = false;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (done_[i] || !due(i)) continue;
      open = open || steps_[i].answered;
      latest = std::min(latest, steps_[i].to);
    }
    if (!open) return true;
    if (left_ == 0 || !known_.insert(key_of(stand)).second) return false;
    --left_;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (done_[i] || !due(i) || steps_[i].from > latest) continue;
      Stand next = stand;
      if (!happen(i, next)) continue;
      done_[i] = 1;
      if (explain(next)) return true;
      done_[i] = 0;
    }
    return false;
  }

  // The end of a row's life comes behind the write of it, or not at all.
  bool due(std::size_t i) const { return steps_[i].ends == kNobody || done_[steps_[i].ends] != 0; }

  std::string key_of(const Stand& stand) const {
    std::string key(done_.begin(), done_.end());
    key += stand.there ? '+' : '-';
    for (const std::uint64_t number : {stand.version, std::uint64_t{stand.lifetime_of}})
      append_le(key, number);
    for (const std::uint64_t version : stand.seen) append_le(key, version);
    return key + stand.value;
  }

  // False: step `i` cannot happen here, or need not because it would change nothing.
  bool happen(std::size_t i, Stand& stand) const {
    const Step& step = steps_[i];
    if (step.ends != kNobody) {
      if (stand.there && stand.lifetime_of == step.ends) remove(stand);
      return true;
    }
    return step.answered ? happen_as_answered(i, stand) : happen_unanswered(i, stand);
  }

  bool happen_as_answered(std::size_t i, Stand& stand) const {
    const KvCall& call = *steps_[i].call;
    const auto& row = call.answer.row;
    if (call.kind == KvKind::get) return row && shows(stand, *row);
    if (!call.answer.applied) return (!row || shows(stand, *row)) && refuses(stand, call);
    if (call.kind == KvKind::del) {
      if (row && !shows(stand, *row)) return false;
      if (!takes(stand, call)) return false;
      remove(stand);
      return true;
    }
    if (!row || row->version == 0 || std::ranges::count(stand.seen, row->version) > 0) return false;
    if (!takes(stand, call)) return false;
    write(i, stand, row->version);
    return stand.value == row->value;
  }

  bool happen_unanswered(std::size_t i, Stand& stand) const {
    const KvCall& call = *steps_[i].call;
    if (!changes(call) || !takes(stand, call)) return false;
    if (call.kind == KvKind::del && !stand.there) return false;
    if (call.kind == KvKind::del)
      remove(stand);
    else
      write(i, stand, 0);
    return true;
  }

  // Whether the row is as an answer shows it; a version that nobody saw before is this one from now on.
  bool shows(Stand& stand, const KvRow& row) const {
    if (row.version == 0) return !stand.there;
    return stand.there && stand.value == row.value && has_version(stand, row.version);
  }

  bool has_version(Stand& stand, std::uint64_t version) const {
    if (stand.version != 0) return stand.version == version;
    if (std::ranges::binary_search(answered_, version)) return false;
    if (std::ranges::count(stand.seen, version) > 0) return false;
    stand.version = version;
    stand.seen.insert(std::ranges::upper_bound(stand.seen, version), version);
    return true;
  }

  bool takes(Stand& stand, const KvCall& call) const {
    if (call.kind == KvKind::incr) return number(stand).has_value();
    const auto expect = expected(call);
    if (!expect) return call.kind != KvKind::del || stand.there;
    if (*expect == 0) return !stand.there;
    return stand.there && has_version(stand, *expect);
  }

  static bool refuses(const Stand& stand, const KvCall& call) {
    if (call.kind == KvKind::incr) return !number(stand).has_value();
    const auto expect = expected(call);
    if (!expect) return call.kind == KvKind::del && !stand.there;
    if (*expect == 0) return stand.there;
    return !stand.there || stand.version != *expect;
  }

  void write(std::size_t i, Stand& stand, std::uint64_t version) const {
    const KvCall& call = *steps_[i].call;
    const bool keeps = call.kind == KvKind::incr && stand.there;
    if (call.kind == KvKind::incr)
      stand.value = fmt::format("{}", *number(stand) + call.delta);
    else
      stand.value = call.value;
    stand.there = true;
    stand.version = version;
    if (!keeps) stand.lifetime_of = call.lifetime ? i : kNobody;
  }

  static void remove(Stand& stand) {
    stand.there = false;
    stand.value.clear();
    stand.version = 0;
    stand.lifetime_of = kNobody;
  }

  const std::vector<Step> steps_;
  std::size_t left_;
  std::vector<char> done_;
  std::vector<std::uint64_t> answered_;  // versions of writes with an answer
  std::unordered_set<std::string> known_;
};

// What was called until `end`, with the answers that had come by then.
std::vector<Step> steps_until(std::span<const KvCall> history, std::int64_t end) {
  std::vector<Step> steps;
  for (const KvCall& call : history) {
    if (call.called > end) continue;
    const bool answered = call.returned && *call.returned <= end;
    if (!answered && !changes(call)) continue;
    steps.push_back({&call, kNobody, call.called, answered ? *call.returned : kNever, answered});
  }
  const std::size_t calls = steps.size();
  for (std::size_t i = 0; i < calls; ++i) {
    if (!steps[i].call->lifetime) continue;
    const auto [earliest, latest] = *steps[i].call->lifetime;
    steps.push_back({steps[i].call, i, earliest, latest, false});
  }
  return steps;
}

std::string describe(const KvRow& row) {
  return row.version == 0 ? "no row" : fmt::format("{} (version {})", row.value, row.version);
}

std::string describe(const KvCall& call) {
  static constexpr std::string_view kNames[] = {"put", "put_if_absent", "delete", "incr", "get"};
  std::string text(kNames[static_cast<std::size_t>(call.kind)]);
  if (call.kind == KvKind::put || call.kind == KvKind::put_if_absent) text += " " + call.value;
  if (call.kind == KvKind::incr) text += fmt::format(" by {}", call.delta);
  if (call.expect) text += fmt::format(" expecting version {}", *call.expect);
  if (call.lifetime) text += fmt::format(", gone in {}..{}", call.lifetime->earliest, call.lifetime->latest);
  return text;
}

std::string describe(const KvCall& call, std::int64_t end) {
  if (!call.returned || *call.returned > end)
    return fmt::format("[{}, …] {}: no answer yet", call.called, describe(call));
  std::string said = call.kind == KvKind::get ? "" : call.answer.applied ? "done" : "not done";
  if (call.answer.row) said += (said.empty() ? "" : ", ") + describe(*call.answer.row);
  const char* const mark = *call.returned == end ? " <- not explained" : "";
  return fmt::format("[{}, {}] {}: {}{}", call.called, *call.returned, describe(call), said, mark);
}

std::string describe(std::span<const KvCall> history, std::int64_t end) {
  std::vector<const KvCall*> calls;
  for (const KvCall& call : history)
    if (call.called <= end) calls.push_back(&call);
  std::ranges::stable_sort(calls, {}, [](const KvCall* call) { return call->called; });
  std::string text;
  for (const KvCall* call : calls) text += describe(*call, end) + "\n";
  return text;
}

}  // namespace

Explanation check_linearizable(std::span<const KvCall> history, std::size_t steps_max) {
  std::vector<std::int64_t> returns;
  for (const KvCall& call : history)
    if (call.returned) returns.push_back(*call.returned);
  std::ranges::sort(returns);
  if (returns.empty()) return {};
  const auto explained = [&](std::int64_t end) { return Search(steps_until(history, end), steps_max).run(); };
  const Explained whole = explained(returns.back());
  if (whole != Explained::no) return {.explained = whole, .answers = 0, .text = {}};
  // A prefix of what can be explained can be explained: the first that cannot is found by halving.
  std::size_t from = 0, to = returns.size() - 1;
  while (from < to) {
    const std::size_t middle = from + (to - from) / 2;
    if (explained(returns[middle]) == Explained::no)
      to = middle;
    else
      from = middle + 1;
  }
  const std::int64_t end = returns[to];
  const auto answers = static_cast<std::size_t>(std::ranges::upper_bound(returns, end) - returns.begin());
  return {.explained = Explained::no, .answers = answers, .text = describe(history, end)};
}

}  // namespace queen::sim
