#include "sink/commit_sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/invariant.h"
#include "base/planted_bugs.h"

namespace queen::sink {
namespace {

// Repeats of one key are at least a second apart, also in a drain (HD-6).
constexpr std::int64_t kStoreWaitUs = kSecondUs;
constexpr int kCheckpointAttempts = 3;

RunStop lost_lease() {
  return {QueueState::fenced, "the lease was lost"};
}
RunStop crashed(CrashPoint point) {
  return {QueueState::crashed, std::string(name_of(point))};
}

}  // namespace

void CommitSequence::restored(const Restored& restored) {
  committed_version_ = restored.committed_version;
  intent_version_ = restored.intent_version;
  if (restored.point.checkpoint) checkpoint_k_ = restored.point.checkpoint->k;
}

void CommitSequence::adopt(const Manifest& manifest) {
  finished_ = Finished{.manifest = manifest_key(context_.path, manifest.bounds.k),
                       .records = manifest.records,
                       .bytes = manifest.bytes,
                       .lost = manifest.lost};
  context_.world.log.info(
      "redo_from_finished_upload",
      {{"queue", context_.queue}, {"k", manifest.bounds.k}, {"records", manifest.records}});
}

bool CommitSequence::crash_here(CrashPoint point) {
  if (context_.world.node.crash_at != point) return false;
  context_.world.crash(point);
  return true;
}

std::optional<RunStop> CommitSequence::refuse_redo(const Intent& intent) const {
  const auto format = format_of(intent);
  const std::string key = intent_key(context_.world.unit.sink, context_.queue);
  if (!format)
    return RunStop{QueueState::failed,
                   fmt::format("the intent {} cannot be redone by this build: {}", key, format.error().what)};
  return std::nullopt;
}

// One fenced write of one row, repeated until it is applied; gives the row's new version.
Task<tl::expected<std::uint64_t, RunStop>> CommitSequence::fenced_put(const char* what, std::string key,
                                                                      std::string value,
                                                                      std::uint64_t expect) {
  Backoff backoff;
  while (true) {
    if (lease_.lost()) co_return tl::unexpected(lost_lease());
    std::vector<machine::KvOp> ops{kv_put_required(key, value, std::nullopt, expect)};
    if (planted(PlantedBug::sink_drops_fence)) ops.front() = kv_put(key, value, std::nullopt);
    auto written = co_await lease_.fenced(std::move(ops));
    if (written) {
      const bool readable = written->size() == 1 && (*written)[0].applied && (*written)[0].row;
      if (readable) co_return (*written)[0].row->version;
      co_return tl::unexpected(RunStop{QueueState::fenced, fmt::format("{}: {} was not written", what, key)});
    }
    const CallError error = written.error();
    const std::string message = sentence(what, error);
    if (error.cls == CallClass::precondition) {
      context_.world.board.count_precondition_lost();
      co_return tl::unexpected(RunStop{QueueState::fenced, message});
    }
    if (lease_.lost()) co_return tl::unexpected(lost_lease());
    context_.note_error("kv_failed", message);
    if (!error.retriable) co_return tl::unexpected(RunStop{QueueState::failed, message});
    co_await context_.interrupt.pause(backoff.next_us(context_.world.random, error.retry_after_us));
  }
}

Task<std::optional<RunStop>> CommitSequence::write_intent(WindowBounds bounds) {
  context_.set_state(QueueState::intent);
  const WindowFormat format = running_format();
  const std::string writer = lake::writer_string(format.kind, context_.world.version);
  const std::string key = intent_key(context_.world.unit.sink, context_.queue);
  const std::string value = encode(make_intent(bounds, format, writer));
  auto version = co_await fenced_put("kv intent", key, value, intent_version_);
  if (!version) co_return std::move(version.error());
  intent_version_ = *version;
  if (crash_here(CrashPoint::after_intent)) co_return crashed(CrashPoint::after_intent);
  co_return std::nullopt;
}

Task<std::optional<RunStop>> CommitSequence::put_until_done(std::string key,
                                                            std::shared_ptr<const Bytes> body,
                                                            std::string content_type) {
  Backoff backoff;
  while (true) {
    if (lease_.lost()) co_return lost_lease();
    s3::PutOptions options;
    options.content_type = content_type;
    if (context_.world.node.crash_at == CrashPoint::mid_upload)
      options.between_parts = [crash = context_.world.crash] { crash(CrashPoint::mid_upload); };
    auto put = co_await context_.world.store.put(key, body, std::move(options));
    if (put.ok()) co_return std::nullopt;
    if (lease_.lost()) co_return lost_lease();
    const s3::S3Error error = *put.error;
    const std::string message = sentence("put " + key, error);
    context_.note_error("put_failed", message);
    if (!error.retriable && error.failure != s3::Failure::cancelled)
      co_return RunStop{QueueState::failed, message};
    const std::int64_t wait =
        std::max(kStoreWaitUs, backoff.next_us(context_.world.random, error.retry_after_us));
    co_await context_.interrupt.pause(wait, kStoreWaitUs);
  }
}

Task<Result<BuiltObject>> CommitSequence::build(std::shared_ptr<const WindowPlan> plan, std::size_t index,
                                                WindowFormat format) {
  using Value = Result<BuiltObject>;
  Executor& builder = context_.world.builder();
  auto start = [&](UniqueFunction<void(Value)> done) {
    auto job = [plan, index, format, path = context_.path, align = context_.world.unit.align,
                done = std::move(done)]() mutable { done(build_object(*plan, index, format, path, align)); };
    builder.post(std::move(job));
  };
  auto awaiter = callback_result<Value>(context_.world.executor, start);
  co_return co_await awaiter;
}

Task<std::optional<RunStop>> CommitSequence::put_objects(UploadAction action, WindowFormat format) {
  std::vector<ManifestObject> objects;
  const std::size_t count = object_count(*action.plan, format.layout);
  for (std::size_t index = 0; index < count; ++index) {
    if (lease_.lost()) co_return lost_lease();
    auto built = co_await build(action.plan, index, format);
    if (!built)
      co_return RunStop{QueueState::failed, fmt::format("queue {}: {}", context_.queue, built.error().what)};
    const std::string key = built->entry.key;
    auto stop = co_await put_until_done(key, std::move(built->body), std::move(built->content_type));
    if (stop) co_return stop;
    objects.push_back(std::move(built->entry));
    if (index == 0 && crash_here(CrashPoint::mid_upload)) co_return crashed(CrashPoint::mid_upload);
  }
  co_return co_await put_manifest(std::move(action), format, std::move(objects));
}

Task<std::optional<RunStop>> CommitSequence::put_manifest(UploadAction action, WindowFormat format,
                                                          std::vector<ManifestObject> objects) {
  const SinkWorld& world = context_.world;
  const Manifest manifest =
      make_manifest(*action.plan, std::move(objects), format, world.unit.sink, context_.path,
                    lake::writer_string(format.kind, world.version), world.executor.clock().wall_us());
  const std::string key = manifest_key(context_.path, manifest.bounds.k);
  auto body = std::make_shared<const Bytes>(encode(manifest));
  const Finished done{
      .manifest = key, .records = manifest.records, .bytes = manifest.bytes, .lost = manifest.lost};
  if (planted(PlantedBug::sink_commits_before_manifest)) {
    finished_ = done;
    const CommitAction early{.k = manifest.bounds.k, .t_end = manifest.bounds.t_end};
    auto failed = co_await commit(early);
    if (failed) co_return failed;
  }
  auto stop = co_await put_until_done(key, std::move(body), "application/json");
  if (stop) co_return stop;
  finished_ = done;
  if (crash_here(CrashPoint::after_upload)) co_return crashed(CrashPoint::after_upload);
  co_return std::nullopt;
}

Task<std::optional<RunStop>> CommitSequence::upload(UploadAction action, bool& adopted) {
  context_.set_state(QueueState::upload);
  adopted = false;
  WindowFormat format = running_format();
  // Waiting for its turn the window stays in the budget, so that a bucket that hangs cannot fill the memory.
  context_.report_memory(context_.row.buffered_bytes + action.plan->weight);
  const AsyncPermits::Permit permit = co_await context_.world.shared.windows.take();
  context_.report_memory(context_.row.buffered_bytes);
  if (action.redo) {
    if (auto refusal = refuse_redo(*action.redo)) co_return refusal;
    format = *format_of(*action.redo);
    const Intent intent = *action.redo;
    auto found = co_await find_finished(context_, lease_, intent);
    if (!found) co_return std::move(found.error());
    if (*found) {
      adopt(**found);
      adopted = true;
      co_return std::nullopt;
    }
  }
  co_return co_await put_objects(std::move(action), format);
}

Task<std::optional<RunStop>> CommitSequence::commit(CommitAction action) {
  context_.set_state(QueueState::commit);
  INVARIANT(finished_.has_value(), "window {} has no finished upload to commit", action.k);
  if (crash_here(CrashPoint::before_commit)) co_return crashed(CrashPoint::before_commit);
  const Committed pointer{.k = action.k,
                          .t_end = action.t_end,
                          .manifest = finished_->manifest,
                          .records = finished_->records,
                          .bytes = finished_->bytes,
                          .committed_at_ms = context_.world.executor.clock().wall_us() / 1000};
  const std::string key = committed_key(context_.world.unit.sink, context_.queue);
  const std::string value = encode(pointer);
  auto version = co_await fenced_put("kv commit", key, value, committed_version_);
  if (!version) co_return std::move(version.error());
  committed_version_ = *version;
  co_return std::nullopt;
}

void CommitSequence::committed(const EngineStatus& status) {
  INVARIANT(finished_.has_value(), "window {} was committed without an upload", status.k);
  const Finished done = std::move(*finished_);
  finished_.reset();
  const std::uint64_t lost = count_of(done.lost);
  QueueRow& row = context_.row;
  row.windows_committed += 1;
  row.records += done.records;
  row.bytes += done.bytes;
  row.records_lost += lost;
  if (checkpoint_k_) row.checkpoint_age_windows = status.k - std::min(status.k, *checkpoint_k_);
  const double lag = static_cast<double>(status.lag_us.value_or(0)) / 1e6;
  context_.world.log.info("window committed", {{"queue", context_.queue},
                                               {"k", status.k},
                                               {"records", done.records},
                                               {"bytes", done.bytes},
                                               {"t_end", status.t_end.value_or(0)},
                                               {"lag_seconds", lag},
                                               {"lost", lost}});
  for (const LostRange& range : done.lost)
    context_.world.log.warn("records_lost", {{"queue", context_.queue},
                                             {"k", status.k},
                                             {"partition", range.partition},
                                             {"from", range.from},
                                             {"to", range.to}});
}

Task<std::optional<RunStop>> CommitSequence::write_checkpoint(Checkpoint checkpoint) {
  const std::uint64_t k = checkpoint.k;
  const std::string key = checkpoint_key(context_.path, k);
  auto body = std::make_shared<const Bytes>(encode_checkpoint(std::move(checkpoint)));
  for (int attempt = 1; attempt <= kCheckpointAttempts; ++attempt) {
    if (lease_.lost()) co_return lost_lease();
    s3::PutOptions options;
    options.content_type = kCheckpointContentType;
    auto put = co_await context_.world.store.put(key, body, std::move(options));
    if (put.ok()) {
      checkpoint_k_ = k;
      context_.row.checkpoint_age_windows = 0;
      co_return std::nullopt;
    }
    const bool last = attempt == kCheckpointAttempts;
    if (last)
      context_.world.log.warn(
          "checkpoint_not_written",
          {{"queue", context_.queue}, {"k", k}, {"error", sentence("put " + key, *put.error)}});
    if (!last) co_await context_.interrupt.pause(attempt * kSecondUs, kStoreWaitUs);
  }
  co_return std::nullopt;
}

}  // namespace queen::sink
