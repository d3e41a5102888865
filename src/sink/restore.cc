#include "sink/restore.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace queen::sink {
namespace {

constexpr std::uint64_t kManifestBytesMax = 1ULL << 30;
constexpr int kListPage = 1000;

using Rows = std::vector<machine::KvFound>;

// Nothing is in flight yet, so a signal simply ends the run.
std::optional<RunStop> interrupted(const QueueContext& context, const Lease& lease) {
  if (lease.lost()) return RunStop{QueueState::fenced, "the lease was lost"};
  if (context.interrupt.any()) return RunStop{QueueState::drained, ""};
  return std::nullopt;
}

Task<tl::expected<Rows, RunStop>> read_pointers(QueueContext& context, Lease& lease) {
  machine::KvOp op;
  op.kind = machine::KvKind::get_many;
  op.ns = kKvNamespace;
  op.keys = {intent_key(context.world.unit.sink, context.queue),
             committed_key(context.world.unit.sink, context.queue)};
  Backoff backoff;
  while (true) {
    if (auto stop = interrupted(context, lease)) co_return tl::unexpected(std::move(*stop));
    std::vector<machine::KvOp> ops{op};
    auto answer = co_await context.world.calls.kv(std::move(ops));
    if (answer && !answer->ops.empty()) co_return std::move(answer->ops[0].rows);
    const CallError error = answer ? make_call_error(CallClass::body, 0, "no result") : answer.error();
    const std::string message = sentence("kv restore", error);
    context.note_error("kv_failed", message);
    if (!error.retriable) co_return tl::unexpected(RunStop{QueueState::failed, message});
    co_await context.interrupt.pause(backoff.next_us(context.world.random, error.retry_after_us));
  }
}

// Fills in what the rows say. Nothing, or why the queue cannot run.
std::optional<RunStop> take_pointers(QueueContext& context, const Rows& rows, Restored& out) {
  const std::string intent_name = intent_key(context.world.unit.sink, context.queue);
  const std::string committed_name = committed_key(context.world.unit.sink, context.queue);
  for (const machine::KvFound& row : rows) {
    if (row.key == intent_name) {
      out.intent_version = row.version;
      auto intent = parse_intent(row.value);
      if (intent) out.point.intent = std::move(*intent);
      if (!intent) context.log.warn("intent_unreadable", {{"error", intent.error().what}});
    }
    if (row.key == committed_name) {
      out.committed_version = row.version;
      auto committed = parse_committed(row.value);
      if (!committed)
        return RunStop{QueueState::failed,
                       fmt::format("the commit pointer {} cannot be read ({}); numbering never "
                                   "restarts by itself",
                                   committed_name, committed.error().what)};
      out.point.committed = std::move(*committed);
    }
  }
  return std::nullopt;
}

// A bucket that holds window 1 while the KV knows of none belongs to a life of this queue that the data
// directory has forgotten; writing on would overwrite it.
Task<std::optional<RunStop>> refuse_foreign_lake(QueueContext& context, Lease& lease) {
  const std::string key = manifest_key(context.path, 1);
  Backoff backoff;
  while (true) {
    if (auto stop = interrupted(context, lease)) co_return stop;
    auto found = co_await context.world.store.head(key);
    if (found.ok()) {
      if (!*found.value) co_return std::nullopt;
      co_return RunStop{
          QueueState::failed,
          fmt::format("the bucket holds windows of this queue under the prefix {} ({}) but the KV knows "
                      "of none: set another QUEEN_S3_PREFIX, or restore the data directory that wrote "
                      "them",
                      context.path.prefix, key)};
    }
    const std::string message = sentence("head " + key, *found.error);
    context.note_error("get_failed", message);
    if (!found.error->retriable && found.error->failure != s3::Failure::cancelled)
      co_return RunStop{QueueState::failed, message};
    const std::int64_t wait = backoff.next_us(context.world.random, found.error->retry_after_us);
    co_await context.interrupt.pause(std::max(kSecondUs, wait));
  }
}

void warn_checkpoint(QueueContext& context, const std::string& why) {
  context.log.warn("checkpoint_unreadable", {{"error", why}});
}

// The highest checkpoint at or below `k_max`. Any failure costs a longer read and nothing else.
Task<std::optional<std::uint64_t>> newest_checkpoint(QueueContext& context, std::uint64_t k_max) {
  std::optional<std::uint64_t> newest;
  std::string after;
  while (true) {
    auto page = co_await context.world.store.list(checkpoint_prefix(context.path), after, kListPage);
    if (!page.ok()) {
      warn_checkpoint(context, sentence("list", *page.error));
      co_return std::nullopt;
    }
    for (const std::string& key : page.value->keys) {
      const auto k = parse_checkpoint_key(context.path, key);
      if (k && *k <= k_max) newest = std::max(newest.value_or(0), *k);
    }
    if (!page.value->truncated) co_return newest;
    if (page.value->keys.empty() || page.value->keys.back() <= after) {
      warn_checkpoint(context, "a page of the listing does not advance");
      co_return std::nullopt;
    }
    after = page.value->keys.back();
  }
}

Task<std::optional<Checkpoint>> read_checkpoint(QueueContext& context, std::uint64_t k_max) {
  const std::optional<std::uint64_t> k = co_await newest_checkpoint(context, k_max);
  if (!k) co_return std::nullopt;
  const std::string key = checkpoint_key(context.path, *k);
  auto object = co_await context.world.store.get(key, kCheckpointBytesMax);
  if (!object.ok()) {
    warn_checkpoint(context, sentence("get " + key, *object.error));
    co_return std::nullopt;
  }
  if (!*object.value) {
    warn_checkpoint(context, key + " is listed but not there");
    co_return std::nullopt;
  }
  auto decoded = decode_checkpoint(**object.value);
  if (decoded && decoded->k <= k_max) co_return std::move(*decoded);
  warn_checkpoint(context, key + ": " + (decoded ? "is of another window" : decoded.error().what));
  co_return std::nullopt;
}

}  // namespace

Task<tl::expected<Restored, RunStop>> restore(QueueContext& context, Lease& lease) {
  Restored out;
  auto rows = co_await read_pointers(context, lease);
  if (!rows) co_return tl::unexpected(std::move(rows.error()));
  if (auto stop = take_pointers(context, *rows, out)) co_return tl::unexpected(std::move(*stop));
  const bool intent_of_first = out.point.intent && out.point.intent->bounds.k == 1;
  if (!out.point.committed && !intent_of_first) {
    auto foreign = co_await refuse_foreign_lake(context, lease);
    if (foreign) co_return tl::unexpected(std::move(*foreign));
  }
  if (out.point.committed) {
    const std::uint64_t k_max = out.point.committed->k;
    out.point.checkpoint = co_await read_checkpoint(context, k_max);
  }
  co_return out;
}

Task<tl::expected<std::optional<Manifest>, RunStop>> find_finished(QueueContext& context, Lease& lease,
                                                                   Intent intent) {
  const std::string key = manifest_key(context.path, intent.bounds.k);
  Backoff backoff;
  while (true) {
    if (lease.lost()) co_return tl::unexpected(RunStop{QueueState::fenced, "the lease was lost"});
    auto object = co_await context.world.store.get(key, kManifestBytesMax);
    if (object.ok()) {
      if (!*object.value) co_return std::optional<Manifest>();
      auto manifest = parse_manifest(**object.value);
      if (!manifest)
        context.log.warn("manifest_unreadable", {{"key", key}, {"error", manifest.error().what}});
      if (!manifest || !matches(*manifest, intent, context.world.unit.sink, context.path))
        co_return std::optional<Manifest>();
      co_return std::optional<Manifest>(std::move(*manifest));
    }
    const std::string message = sentence("get " + key, *object.error);
    context.note_error("get_failed", message);
    if (context.interrupt.any()) co_return tl::unexpected(RunStop{QueueState::drained, ""});
    if (!object.error->retriable && object.error->failure != s3::Failure::cancelled)
      co_return tl::unexpected(RunStop{QueueState::failed, message});
    const std::int64_t wait = backoff.next_us(context.world.random, object.error->retry_after_us);
    co_await context.interrupt.pause(std::max(kSecondUs, wait));
  }
}

Task<void> compare_paths(QueueContext& context, Committed last) {
  if (std::exchange(context.paths_compared, true)) co_return;
  auto object = co_await context.world.store.get(last.manifest, kManifestBytesMax);
  if (!object.ok() || !*object.value) co_return;
  auto manifest = parse_manifest(**object.value);
  if (!manifest || manifest->objects.empty()) co_return;
  const std::string& key = manifest->objects.front().key;
  const auto day = key.rfind("/dt=");
  if (day == std::string::npos) co_return;
  const auto next = key.find('/', day + 1);
  const bool by_hour = next != std::string::npos && key.compare(next, 6, "/hour=") == 0;
  if (by_hour == (context.world.unit.align != Align::day)) co_return;
  context.log.warn(
      "alignment_changed",
      {{"prefix", context.path.prefix},
       {"align", name_of(context.world.unit.align)},
       {"why", by_hour ? "windows with hour= in their path are under this prefix, new ones have none: "
                         "readers see two forms; set another QUEEN_S3_PREFIX"
                       : "windows without hour= in their path are under this prefix, new ones have it: "
                         "readers see two forms; set another QUEEN_S3_PREFIX"}});
}

}  // namespace queen::sink
