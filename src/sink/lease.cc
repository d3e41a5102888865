#include "sink/lease.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/planted_bugs.h"

namespace queen::sink {
namespace {

constexpr std::int64_t kReleaseFirstWaitUs = 100'000;
constexpr std::int64_t kReleaseLongestWaitUs = 1'000'000;
constexpr std::int64_t kReleaseGiveUpUs = 10'000'000;

enum class DeleteEnd : std::uint8_t { done, repeat };

Task<DeleteEnd> try_delete_own_row(BrokerCalls& calls, const std::string& key,
                                   const std::string& incarnation) {
  std::vector<machine::KvOp> look{kv_get(key)};
  auto found = co_await calls.kv(std::move(look));
  if (!found) co_return found.error().retriable ? DeleteEnd::repeat : DeleteEnd::done;
  if (found->ops.empty() || !found->ops[0].row) co_return DeleteEnd::done;
  const auto row = parse_lease_row(found->ops[0].row->value);
  if (!row || row->incarnation != incarnation) co_return DeleteEnd::done;
  std::vector<machine::KvOp> remove{kv_delete(key, found->ops[0].row->version)};
  auto removed = co_await calls.kv(std::move(remove));
  const bool repeat = !removed && removed.error().retriable;
  co_return repeat ? DeleteEnd::repeat : DeleteEnd::done;
}

CallError lost_error(std::string text) {
  return make_call_error(CallClass::precondition, 0, std::move(text));
}

}  // namespace

std::int64_t ttl_seconds_of(std::int64_t lease_ttl_us) {
  return std::max<std::int64_t>(1, lease_ttl_us / 1'000'000);
}

std::int64_t refresh_interval_us(std::int64_t lease_ttl_us) {
  return std::max<std::int64_t>(100'000, ttl_seconds_of(lease_ttl_us) * 1000 / 3 * 1000);
}

std::string make_incarnation(Random& random) {
  return fmt::format("{:016x}", random.next());
}

Task<void> delete_own_row(BrokerCalls& calls, std::string key, std::string incarnation, Logger log) {
  const std::int64_t give_up = calls.executor().clock().mono_us() + kReleaseGiveUpUs;
  std::int64_t wait = kReleaseFirstWaitUs;
  while (true) {
    const DeleteEnd end = co_await try_delete_own_row(calls, key, incarnation);
    if (end == DeleteEnd::done) co_return;
    if (calls.executor().clock().mono_us() + wait > give_up) break;
    co_await sleep_for(calls.executor(), wait);
    wait = std::min(wait * 2, kReleaseLongestWaitUs);
  }
  log.warn("row_not_given_back", {{"key", key}});
}

Lease::Lease(BrokerCalls& calls, Names names, std::int64_t lease_ttl_us, Logger log)
    : calls_(calls),
      names_(std::move(names)),
      lease_ttl_us_(lease_ttl_us),
      log_(std::move(log)),
      writer_(calls.executor(), 1) {}

std::string Lease::row() const {
  return encode(
      LeaseRow{.instance = names_.instance, .incarnation = names_.incarnation, .since_ms = since_ms_});
}

machine::KvOp Lease::refresh_op() const {
  if (planted(PlantedBug::sink_drops_fence)) return kv_put(names_.key, row(), ttl_seconds_of(lease_ttl_us_));
  return kv_put_required(names_.key, row(), ttl_seconds_of(lease_ttl_us_), version_);
}

void Lease::mark_lost() {
  if (lost_) return;
  lost_ = true;
  if (on_lost_) on_lost_();
}

// Takes the version that a write of the row was given. False: the answer carries none, so nothing is known
// about the row.
bool Lease::absorb(const machine::KvOpOutcome& written) {
  if (!written.applied || !written.row || written.row->version == 0) {
    mark_lost();
    return false;
  }
  version_ = written.row->version;
  return true;
}

Task<CallOutcome<LookResult>> Lease::look() {
  std::vector<machine::KvOp> ops{kv_get(names_.key)};
  auto found = co_await calls_.kv(std::move(ops));
  if (!found) co_return tl::unexpected(found.error());
  LookResult out;
  if (found->ops.empty() || !found->ops[0].row) co_return out;
  const auto row = parse_lease_row(found->ops[0].row->value);
  out.holder = row ? row->instance : "unknown";
  out.row = row && row->instance == names_.instance ? LookResult::Row::mine : LookResult::Row::other;
  co_return out;
}

Task<CallOutcome<ClaimResult>> Lease::claim() {
  const AsyncPermits::Permit permit = co_await writer_.take();
  since_ms_ = calls_.executor().clock().wall_us() / 1000;
  machine::KvOp op = kv_put(names_.key, row(), ttl_seconds_of(lease_ttl_us_));
  op.kind = machine::KvKind::put_if_absent;
  std::vector<machine::KvOp> ops{std::move(op)};
  auto put = co_await calls_.kv(std::move(ops));
  if (!put) co_return tl::unexpected(put.error());
  if (put->ops.empty())
    co_return tl::unexpected(make_call_error(CallClass::body, 0, "a claim without a result"));
  const machine::KvOpOutcome& result = put->ops[0];
  if (result.applied && result.row && result.row->version != 0) {
    version_ = result.row->version;
    co_return ClaimResult{.taken = true, .holder = {}};
  }
  if (!result.row)
    co_return tl::unexpected(make_call_error(CallClass::body, 0, "a lost claim without the winner"));
  const auto winner = parse_lease_row(result.row->value);
  if (!winner) co_return ClaimResult{.taken = false, .holder = "unknown"};
  if (winner->instance != names_.instance) co_return ClaimResult{.taken = false, .holder = winner->instance};
  // An earlier life of this instance: its next write is fenced out by the version this one takes.
  const std::uint64_t version = result.row->version;
  co_return co_await take_over(version);
}

Task<CallOutcome<ClaimResult>> Lease::take_over(std::uint64_t version) {
  std::vector<machine::KvOp> ops{kv_put_required(names_.key, row(), ttl_seconds_of(lease_ttl_us_), version)};
  auto put = co_await calls_.kv(std::move(ops));
  if (!put) co_return tl::unexpected(put.error());
  if (!put->failed_index && !put->ops.empty() && put->ops[0].applied && put->ops[0].row) {
    version_ = put->ops[0].row->version;
    co_return ClaimResult{.taken = version_ != 0, .holder = names_.instance};
  }
  std::string holder = names_.instance;
  if (put->failed_row) {
    const auto row = parse_lease_row(put->failed_row->value);
    holder = row ? row->instance : "unknown";
  }
  co_return ClaimResult{.taken = false, .holder = std::move(holder)};
}

Task<CallOutcome<machine::Nothing>> Lease::refresh() {
  std::vector<machine::KvOp> none;
  auto done = co_await fenced(std::move(none));
  if (!done) {
    if (!done.error().retriable) mark_lost();
    co_return tl::unexpected(done.error());
  }
  co_return machine::Nothing{};
}

Task<CallOutcome<std::vector<machine::KvOpOutcome>>> Lease::fenced(std::vector<machine::KvOp> ops) {
  const AsyncPermits::Permit permit = co_await writer_.take();
  if (!held()) co_return tl::unexpected(lost_error("the lease is not held"));
  ops.insert(ops.begin(), refresh_op());
  const std::vector<machine::KvOp> sent = ops;
  auto written = co_await calls_.kv(std::move(ops));
  if (!written) co_return tl::unexpected(written.error());
  if (written->failed_index) {
    const std::uint32_t index = *written->failed_index;
    if (index == 0) mark_lost();
    const std::string key = index < sent.size() ? sent[index].key : "";
    co_return tl::unexpected(lost_error(
        fmt::format("the row {} is not as this node last saw it ({})", key, written->failed_reason)));
  }
  if (written->ops.empty() || !absorb(written->ops[0])) {
    mark_lost();
    co_return tl::unexpected(lost_error("the lease row was not written"));
  }
  written->ops.erase(written->ops.begin());
  co_return std::move(written->ops);
}

Task<void> Lease::release() {
  if (version_ == 0) co_return;
  const AsyncPermits::Permit permit = co_await writer_.take();
  co_await delete_own_row(calls_, names_.key, names_.incarnation, log_);
  version_ = 0;
}

}  // namespace queen::sink
