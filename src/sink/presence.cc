#include "sink/presence.h"

#include <algorithm>

#include "sink/documents.h"
#include "sink/layout.h"
#include "sink/lease.h"

namespace queen::sink {
namespace {

constexpr std::uint32_t kPage = 1000;
constexpr std::int64_t kWarnEveryUs = 30 * kSecondUs;

machine::KvOp page_op(const std::string& sink, std::string after) {
  machine::KvOp op;
  op.kind = machine::KvKind::get_prefix;
  op.ns = kKvNamespace;
  op.prefix = presence_prefix(sink);
  op.after = std::move(after);
  op.limit = kPage;
  op.keys_only = true;
  return op;
}

bool holds(const machine::KvOpOutcome& page, const std::string& key) {
  return std::any_of(page.rows.begin(), page.rows.end(), [&](const auto& row) { return row.key == key; });
}

// Where the next page starts; nothing after the last page, and when a page does not advance.
std::optional<std::string> next_page(const machine::KvOpOutcome& page, const std::string& after) {
  if (!page.truncated || !page.next_after || *page.next_after <= after) return std::nullopt;
  return page.next_after;
}

}  // namespace

Presence::Presence(BrokerCalls& calls, Names names, std::int64_t lease_ttl_us, Random& random, Logger log)
    : calls_(calls),
      names_(std::move(names)),
      lease_ttl_us_(lease_ttl_us),
      random_(random),
      log_(std::move(log)) {}

Task<CallOutcome<std::size_t>> Presence::beat() {
  const std::string key = presence_key(names_.sink, names_.instance);
  const LeaseRow row{.instance = names_.instance, .incarnation = names_.incarnation, .since_ms = since_ms_};
  std::vector<machine::KvOp> ops{kv_put(key, encode(row), ttl_seconds_of(lease_ttl_us_)),
                                 page_op(names_.sink, "")};
  wrote_ = true;  // a call that fails may have written it nevertheless
  auto done = co_await calls_.kv(std::move(ops));
  if (!done) co_return tl::unexpected(done.error());
  if (done->ops.size() != 2)
    co_return tl::unexpected(make_call_error(CallClass::body, 0, "a beat without a page"));
  const machine::KvOpOutcome& page = done->ops[1];
  const bool own_seen = holds(page, key);
  std::optional<std::string> next = next_page(page, "");
  const std::size_t counted = page.rows.size();
  if (!next) co_return std::max<std::size_t>(1, counted + (own_seen ? 0 : 1));
  co_return co_await count_further(std::move(*next), counted, own_seen);
}

Task<CallOutcome<std::size_t>> Presence::count_further(std::string after, std::size_t counted,
                                                       bool own_seen) {
  const std::string key = presence_key(names_.sink, names_.instance);
  while (true) {
    std::vector<machine::KvOp> ops{page_op(names_.sink, after)};
    auto done = co_await calls_.kv(std::move(ops));
    if (!done) co_return tl::unexpected(done.error());
    if (done->ops.empty())
      co_return tl::unexpected(make_call_error(CallClass::body, 0, "a page without rows"));
    const machine::KvOpOutcome& page = done->ops[0];
    counted += page.rows.size();
    own_seen = own_seen || holds(page, key);
    std::optional<std::string> next = next_page(page, after);
    if (!next) co_return counted + (own_seen ? 0 : 1);
    after = std::move(*next);
  }
}

Task<void> Presence::run(Interrupt& interrupt) {
  since_ms_ = calls_.executor().clock().wall_us() / 1000;
  const std::int64_t cadence = refresh_interval_us(lease_ttl_us_);
  Backoff backoff;
  while (!interrupt.stopping()) {
    auto counted = co_await beat();
    if (counted) {
      nodes_ = *counted;
      if (on_counted_) on_counted_(nodes_);
      backoff = Backoff();
      co_await interrupt.pause(cadence);
      continue;
    }
    const std::int64_t now = calls_.executor().clock().mono_us();
    if (const auto suppressed = limit_.pass("presence", now, kWarnEveryUs))
      log_.warn("presence_not_written",
                {{"error", sentence("presence", counted.error())}, {"suppressed", *suppressed}});
    const std::int64_t wait = backoff.next_us(random_, counted.error().retry_after_us);
    co_await interrupt.pause(std::min(wait, cadence));
  }
}

Task<void> Presence::leave() {
  if (!wrote_) co_return;
  co_await delete_own_row(calls_, presence_key(names_.sink, names_.instance), names_.incarnation, log_);
}

}  // namespace queen::sink
