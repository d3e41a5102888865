// Locks: what one operation asks of the rows of its lock, and what their answers mean (LK-1 to LK-11).
#include <algorithm>
#include <charconv>

#include "api/detail/json_check.h"
#include "api/detail/locks.h"
#include "base/text.h"

namespace queen::api {
namespace {

using machine::KvFound;
using machine::KvKind;
using machine::KvOp;
using machine::KvOpOutcome;

constexpr std::string_view kLocksNamespace = "queen-locks";
constexpr std::uint32_t kAcquireTries = 4;
constexpr std::uint32_t kRenewTries = 2;
constexpr std::uint32_t kSlotsMax = 1024;
constexpr std::uint32_t kPageRows = 1000;

// The slot that a row's key names after the `#`: a number as we write it. Others are not ours.
std::optional<std::uint32_t> slot_of(std::string_view key) {
  const std::string_view digits = key.substr(key.find('#') + 1);
  std::uint32_t slot = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), slot);
  if (read.ec != std::errc{} || read.ptr != digits.data() + digits.size() || slot >= kSlotsMax)
    return std::nullopt;
  if (digits.size() > 1 && digits[0] == '0') return std::nullopt;
  return slot;
}

// What the row's value says; whatever somebody else wrote there holds the slot too, for nobody (LK-11).
struct Told {
  std::optional<std::string> owner;
  std::optional<std::int64_t> since;
  bool is_object = false;
};
Told value_of(const KvFound& row) {
  Told out;
  JsonValue value;
  if (!JsonScanner(row.value).value(value)) return out;
  const auto fields = JsonFields::of(value);
  out.is_object = fields.has_value();
  if (!fields) return out;
  if (const JsonValue* owner = fields->find("owner")) out.owner = string_of(*owner);
  const JsonValue* since = fields->find("since");
  const auto text = since != nullptr ? string_of(*since) : std::nullopt;
  if (text) out.since = parse_iso_micros(*text);
  return out;
}

LockPermit permit_of(std::uint32_t slot, const KvFound& row) {
  Told told = value_of(row);
  return {slot,           std::move(told.owner), row.version, told.since.value_or(row.updated_at),
          row.updated_at, row.expires_at};
}

// The value as it was, with the time of the acquire once it is renewed (LK-4).
std::string renewed_value(const KvFound& row) {
  const Told told = value_of(row);
  if (told.since || !told.is_object) return row.value;
  std::string out = row.value;
  const std::size_t end = out.rfind('}');
  const bool empty = out[out.find_last_not_of(" \t\r\n", end - 1)] == '{';
  out.insert(end,
             std::string(empty ? "" : ",") + R"("since":)" + json_string(iso_trimmed_offset(row.updated_at)));
  return out;
}

std::string owner_value(const std::optional<std::string>& owner) {
  std::string text;
  JsonWriter out(text);
  out.open('{').name("owner");
  if (owner) {
    out.text(*owner);
  } else {
    out.null();
  }
  out.close('}');
  return text;
}

void write_owner(JsonWriter& out, const std::optional<std::string>& owner) {
  out.name("owner");
  if (owner) {
    out.text(*owner);
  } else {
    out.null();
  }
}

std::string_view name_of(LockKind kind) {
  switch (kind) {
    case LockKind::acquire:
      return "acquire";
    case LockKind::renew:
      return "renew";
    case LockKind::release:
      return "release";
    case LockKind::get:
      return "get";
  }
  return "";
}

}  // namespace

LockStep::LockStep(LockOp op) : op_(std::move(op)) {
  // A lock has one slot and a release its token: both are decided where they write.
  const bool writes = op_.kind == LockKind::release || (op_.kind == LockKind::acquire && op_.limit == 1);
  wants_ = writes ? Wants::write : Wants::read;
  if (writes) free_ = {0};
}

std::string LockStep::key(std::uint32_t slot) const {
  return op_.name + '#' + std::to_string(slot);
}

KvOp LockStep::ask(Random& random) {
  KvOp out;
  out.ns = kLocksNamespace;
  if (wants_ == Wants::write && op_.kind == LockKind::acquire)
    op_.slot = free_.at(random.next() % free_.size());
  out.key = key(op_.slot);
  switch (op_.kind) {
    case LockKind::acquire:
      out.kind = wants_ == Wants::read ? KvKind::get_many : KvKind::put_if_absent;
      out.value = owner_value(op_.owner);
      out.ttl_seconds = op_.ttl_seconds;
      if (wants_ == Wants::read)
        for (std::uint32_t slot = 0; slot < op_.limit; ++slot) out.keys.push_back(key(slot));
      break;
    case LockKind::renew:
      out.kind = wants_ == Wants::read ? KvKind::get : KvKind::put;
      if (wants_ == Wants::read) break;
      out.value = renewed_value(*read_);
      out.expect = read_->version;
      out.ttl_seconds = op_.ttl_seconds;
      break;
    case LockKind::release:
      out.kind = KvKind::del;
      out.expect = op_.token;
      break;
    case LockKind::get:
      out.kind = KvKind::get_prefix;
      out.prefix = op_.name + '#';
      out.after = after_;
      out.limit = kPageRows;
      break;
  }
  return out;
}

void LockStep::told(const KvOpOutcome& outcome) {
  switch (op_.kind) {
    case LockKind::acquire:
      return wants_ == Wants::read ? told_acquire_read(outcome) : told_acquire_write(outcome);
    case LockKind::renew:
      return wants_ == Wants::read ? told_renew_read(outcome) : told_write(outcome);
    case LockKind::release:
      return told_write(outcome);
    case LockKind::get:
      return told_page(outcome);
  }
}

bool LockStep::is_mine(const LockPermit& permit) const {
  return op_.owner && permit.owner == op_.owner;
}

void LockStep::grant(std::uint32_t slot, std::uint64_t token) {
  op_.slot = slot;
  token_ = token;
  done_ = true;
  wants_ = Wants::nothing;
}

void LockStep::refuse(std::string_view reason) {
  reason_ = reason;
  wants_ = Wants::nothing;
}

// The row in the way, or nobody.
void LockStep::hold(const std::optional<KvFound>& row) {
  holders_.clear();
  if (row) holders_.push_back(permit_of(op_.slot, *row));
}

void LockStep::told_acquire_read(const KvOpOutcome& outcome) {
  std::vector<std::optional<LockPermit>> slots(op_.limit);
  for (std::uint32_t slot = 0; slot < op_.limit; ++slot) slots[slot] = LockPermit{slot, {}, 0, 0, 0, {}};
  for (const std::string& missing : outcome.missing) slots.at(*slot_of(missing)).reset();
  for (const KvFound& row : outcome.rows) {
    const std::uint32_t slot = *slot_of(row.key);
    slots.at(slot) = permit_of(slot, row);
  }
  holders_.clear();
  free_.clear();
  for (std::uint32_t slot = 0; slot < op_.limit; ++slot) {
    if (!slots[slot]) {
      free_.push_back(slot);
      continue;
    }
    if (!done_ && is_mine(*slots[slot])) {
      already_ = true;
      grant(slot, slots[slot]->token);
    }
    holders_.push_back(*std::move(slots[slot]));
  }
  if (done_) return;
  if (free_.empty()) return refuse("held");
  wants_ = Wants::write;
}

void LockStep::told_acquire_write(const KvOpOutcome& outcome) {
  if (outcome.applied) return grant(op_.slot, outcome.row->version);
  const LockPermit winner = permit_of(op_.slot, *outcome.row);
  if (is_mine(winner)) {
    already_ = true;
    return grant(winner.slot, winner.token);
  }
  if (op_.limit == 1) {
    hold(outcome.row);
    return refuse("held");
  }
  if (++tries_ == kAcquireTries) return refuse("contended");
  wants_ = Wants::read;
}

void LockStep::told_renew_read(const KvOpOutcome& outcome) {
  read_ = outcome.row;
  hold(read_);
  const bool mine = read_ && (read_->version == op_.token || is_mine(holders_[0]));
  if (!mine) return refuse("lost");
  wants_ = Wants::write;
}

// Of a renew or a release.
void LockStep::told_write(const KvOpOutcome& outcome) {
  if (outcome.applied) return grant(op_.slot, outcome.row ? outcome.row->version : 0);
  if (op_.kind == LockKind::renew && ++tries_ < kRenewTries) {
    wants_ = Wants::read;
    return;
  }
  hold(outcome.row);
  refuse("lost");
}

void LockStep::told_page(const KvOpOutcome& outcome) {
  for (const KvFound& row : outcome.rows)
    if (const auto slot = slot_of(row.key)) holders_.push_back(permit_of(*slot, row));
  after_ = outcome.next_after.value_or("");
  if (outcome.truncated) return;
  std::sort(holders_.begin(), holders_.end(),
            [](const LockPermit& a, const LockPermit& b) { return a.slot < b.slot; });
  wants_ = Wants::nothing;
}

void LockStep::write_guard(JsonWriter& out) const {
  out.name("guard").open('{').name("op").text("check").name("ns").text(kLocksNamespace);
  out.name("key").text(key(op_.slot)).name("expect").number(token_).name("required").boolean(true).close('}');
}

void LockStep::write_holders(JsonWriter& out) const {
  out.name("holders").open('[');
  for (const LockPermit& holder : holders_) {
    out.open('{').name("slot").number(holder.slot);
    write_owner(out, holder.owner);
    if (op_.kind == LockKind::get) {
      out.name("token").number(holder.token).name("since").text(iso_trimmed_offset(holder.since));
      out.name("expiresAt");
      if (holder.expires_at) {
        out.text(iso_trimmed_offset(*holder.expires_at));
      } else {
        out.null();
      }
      out.name("renewedAt").text(iso_trimmed_offset(holder.renewed_at));
    }
    out.close('}');
  }
  out.close(']');
}

void LockStep::write(JsonWriter& out) const {
  out.name("op").text(name_of(op_.kind)).name("name").text(op_.name);
  switch (op_.kind) {
    case LockKind::acquire:
      out.name("acquired").boolean(done_);
      if (!done_) {
        out.name("reason").text(reason_);
        return write_holders(out);
      }
      out.name("slot").number(op_.slot).name("token").number(token_);
      write_owner(out, op_.owner);
      write_guard(out);
      if (already_) out.name("already").boolean(true);
      return;
    case LockKind::renew:
    case LockKind::release:
      out.name(op_.kind == LockKind::renew ? "renewed" : "released").boolean(done_);
      if (!done_) {
        out.name("reason").text(reason_).name("slot").number(op_.slot);
        return write_holders(out);
      }
      out.name("slot").number(op_.slot);
      if (op_.kind == LockKind::release) return;
      out.name("token").number(token_);
      return write_guard(out);
    case LockKind::get:
      out.name("held").boolean(!holders_.empty());
      return write_holders(out);
  }
}

}  // namespace queen::api
