#include "key_book.h"

#include <algorithm>
#include <limits>

namespace queen::sim {
namespace {

using Kind = machine::KvKind;

constexpr std::size_t kStepsMax = 100'000;  // of a search; an answer that takes longer to explain is let pass

std::optional<KvKind> kind_of(Kind kind) {
  switch (kind) {
    case Kind::put:
      return KvKind::put;
    case Kind::put_if_absent:
      return KvKind::put_if_absent;
    case Kind::del:
      return KvKind::del;
    case Kind::incr:
      return KvKind::incr;
    default:
      return std::nullopt;
  }
}

KvRow row_of(const std::optional<machine::KvFound>& row) {
  return row ? KvRow{row->value, row->version} : KvRow{};
}

// Without its times and its answer.
KvCall call_of(const machine::KvOp& op, KvKind kind) {
  KvCall call;
  call.kind = kind;
  call.value = op.value;
  if (kind == KvKind::incr) call.delta = std::stoll(op.delta);
  call.expect = op.expect;
  return call;
}

}  // namespace

void KeyBook::answered(const std::vector<machine::KvOp>& ops, const machine::KvOutcome& outcome,
                       std::int64_t called_us, std::int64_t returned_us) {
  if (outcome.failed_index) {  // nothing was done, and one row was seen
    return read(ops.at(*outcome.failed_index).key,
                outcome.failed_row && outcome.failed_row->version != 0 ? outcome.failed_row : std::nullopt,
                called_us, returned_us);
  }
  if (outcome.ops.size() != ops.size())
    return story_.violate("each operation is answered", "{} of {}", outcome.ops.size(), ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) answered_one(ops[i], outcome.ops[i], called_us, returned_us);
  check_own_writes(ops, outcome);
}

void KeyBook::answered_one(const machine::KvOp& op, const machine::KvOpOutcome& outcome,
                           std::int64_t called_us, std::int64_t returned_us) {
  if (op.kind == Kind::get_many) {
    for (const auto& row : outcome.rows) read(row.key, row, called_us, returned_us);
    for (const auto& key : outcome.missing) read(key, std::nullopt, called_us, returned_us);
    if (outcome.rows.size() + outcome.missing.size() != op.keys.size())
      story_.violate("each key is answered", "{} and {} of {}", outcome.rows.size(), outcome.missing.size(),
                     op.keys.size());
    return;
  }
  const auto kind = kind_of(op.kind);
  if (!kind) {  // a get or a check
    const std::uint64_t version = outcome.row ? outcome.row->version : 0;
    if (op.kind == Kind::check && outcome.applied != (version == op.expect))
      story_.violate("a check tells the truth", "{} at {}", op.key, version);
    return read(op.key, outcome.row, called_us, returned_us);
  }
  Asked asked{call_of(op, *kind), std::nullopt, false};
  asked.call.called = called_us;
  asked.call.returned = returned_us;
  asked.call.answer.applied = outcome.applied;
  asked.call.answer.row = row_of(outcome.row);
  if (outcome.applied && *kind == KvKind::del && !outcome.row) asked.call.answer.row.reset();
  if (outcome.applied && *kind != KvKind::del) {
    wrote(op.key, *outcome.row, called_us, returned_us);
    if (op.ttl_seconds) asked.expires_at = outcome.row->updated_at + *op.ttl_seconds * kSecondUs;
    if (*kind != KvKind::incr && outcome.row->expires_at != asked.expires_at)
      story_.violate("a put takes its own lifetime", "{} version {}", op.key, outcome.row->version);
  }
  keys_[op.key].asked.push_back(std::move(asked));
}

// Versions are given once, and grow with time.
void KeyBook::wrote(const std::string& key, const machine::KvFound& row, std::int64_t called_us,
                    std::int64_t returned_us) {
  if (!given_.insert(row.version).second)
    story_.violate("versions are given once", "{} at {}", row.version, key);
  for (const auto& [by, version] : versions_[key])
    if (by < called_us && version >= row.version)
      story_.violate("versions grow", "{}: {} by {}, {} called at {}", key, version, by, row.version,
                     called_us);
  versions_[key].emplace_back(returned_us, row.version);
}

void KeyBook::read(const std::string& key, const std::optional<machine::KvFound>& row, std::int64_t called_us,
                   std::int64_t returned_us) {
  Asked asked;
  asked.call.kind = KvKind::get;
  asked.call.called = called_us;
  asked.call.returned = returned_us;
  asked.call.answer.row = row_of(row);
  keys_[key].asked.push_back(std::move(asked));
  keys_[key].last = row;
}

// Reads of many come behind the call's writes, and see them (KV-14).
void KeyBook::check_own_writes(const std::vector<machine::KvOp>& ops, const machine::KvOutcome& outcome) {
  for (std::size_t many = 0; many < ops.size(); ++many) {
    if (ops[many].kind != Kind::get_many) continue;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (i == many || !outcome.ops[i].applied || !kind_of(ops[i].kind)) continue;
      if (std::ranges::count(ops[many].keys, ops[i].key) == 0) continue;
      const auto& rows = outcome.ops[many].rows;
      const auto seen = std::ranges::find(rows, ops[i].key, &machine::KvFound::key);
      const bool deleted = ops[i].kind == Kind::del;
      if (deleted != (seen == rows.end()) || (!deleted && seen->version != outcome.ops[i].row->version))
        story_.violate("a call sees its own writes", "{}", ops[i].key);
    }
  }
}

void KeyBook::unknown(const std::vector<machine::KvOp>& ops, std::int64_t called_us, std::int64_t stamp_us) {
  for (const auto& op : ops) {
    const auto kind = kind_of(op.kind);
    if (!kind) continue;
    Asked asked{call_of(op, *kind), std::nullopt, true};
    asked.call.called = called_us;
    if (op.ttl_seconds) asked.expires_at = stamp_us + *op.ttl_seconds * kSecondUs;
    keys_[op.key].asked.push_back(std::move(asked));
  }
}

std::vector<KvCall> KeyBook::history_of(const Key& key) const {
  std::vector<KvCall> history;
  for (const Asked& asked : key.asked) {
    history.push_back(asked.call);
    if (!asked.expires_at) continue;
    constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
    history.back().lifetime = KvLifetime{time_.not_before(*asked.expires_at),
                                         asked.expires_from ? kNever : time_.surely_by(*asked.expires_at)};
  }
  return history;
}

void KeyBook::check(const std::map<std::string, machine::KvFound>& rows, std::int64_t stamp_us) {
  for (const auto& [name, key] : keys_) {
    const auto explanation = check_linearizable(history_of(key), kStepsMax);
    if (explanation.explained == Explained::no)
      story_.violate("keys are linearizable", "{}:\n{}", name, explanation.text);
    check_row(name, key, rows, stamp_us);
  }
  for (const auto& [name, row] : rows)
    if (!keys_.contains(name)) story_.violate("nothing that nobody sent", "key {}", name);
}

// As the last read had it, unless its time came.
void KeyBook::check_row(const std::string& name, const Key& key,
                        const std::map<std::string, machine::KvFound>& rows, std::int64_t stamp_us) {
  const auto at = rows.find(name);
  if (at == rows.end()) {
    if (key.last && (!key.last->expires_at || *key.last->expires_at > stamp_us))
      story_.violate("nothing answered is lost", "{}: version {} is gone", name, key.last->version);
    return;
  }
  const auto& row = at->second;
  const bool swept = row.expires_at.has_value();  // expired, and not removed yet
  if (!key.last && !swept)
    story_.violate("what is gone stays gone", "{}: version {} is back", name, row.version);
  if (key.last && (key.last->version != row.version || key.last->value != row.value))
    story_.violate("rows stay as they were read", "{}: {} at version {}, read as {} at {}", name, row.value,
                   row.version, key.last->value, key.last->version);
}

}  // namespace queen::sim
