#include "sink/status.h"

#include <fmt/format.h>

#include "base/text.h"
#include "lake/record_writer.h"

namespace queen::sink {
namespace {

// Builds one JSON object field by field.
class JsonObject {
 public:
  JsonObject& raw(std::string_view name, std::string_view json) {
    out_ += out_.size() == 1 ? "" : ",";
    append_json_string(out_, name);
    out_ += ':';
    out_ += json;
    return *this;
  }
  JsonObject& text(std::string_view name, std::string_view value) { return raw(name, json_string(value)); }
  JsonObject& text_or_null(std::string_view name, std::string_view value) {
    return raw(name, value.empty() ? "null" : json_string(value));
  }
  JsonObject& boolean(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }
  template <class T>
  JsonObject& number(std::string_view name, T value) {
    return raw(name, fmt::format("{}", value));
  }
  JsonObject& time(std::string_view name, std::optional<std::int64_t> us) {
    return raw(name, us ? json_string(iso_micros(*us)) : "null");
  }
  std::string done() { return out_ + "}"; }

 private:
  std::string out_ = "{";
};

std::string queue_json(const std::string& name, const QueueRow& row) {
  JsonObject out;
  out.text("name", name).boolean("ownedHere", row.owned_here).text_or_null("heldBy", row.held_by);
  out.text("state", name_of(row.state)).number("k", row.k).time("tEnd", row.t_end);
  out.time("completeThrough", row.complete_through).time("safeTime", row.safe_time);
  out.raw("lagSeconds", row.lag_us ? fmt::format("{}", static_cast<double>(*row.lag_us) / 1e6) : "null");
  out.boolean("redo", row.redo)
      .number("bufferedBytes", row.buffered_bytes)
      .number("partitions", row.partitions);
  out.number("windowsCommitted", row.windows_committed)
      .number("records", row.records)
      .number("bytes", row.bytes);
  out.number("recordsLost", row.records_lost);
  std::string error = "null";
  if (row.last_error) {
    JsonObject last;
    error = last.time("at", row.last_error->at_us).text("message", row.last_error->message).done();
  }
  return out.raw("lastError", error).done();
}

std::string bucket_json(const UnitSettings& settings, const BucketState& bucket) {
  JsonObject out;
  out.raw("reachable", !bucket.reachable ? "null" : *bucket.reachable ? "true" : "false");
  out.text_or_null("error", bucket.error).time("checkedAt", bucket.checked_at_us);
  out.text("name", settings.bucket).text("endpoint", settings.endpoint).text("region", settings.region);
  return out.text("prefix", settings.prefix).done();
}

std::string health_json(const HealthVerdict& health) {
  JsonObject out;
  out.boolean("ok", health.ok);
  if (health.ok) return out.number("queues", health.queues).done();
  out.text("queue", health.queue).number("staleMs", health.stale_us / 1000);
  return out.number("limitMs", health.limit_us / 1000).done();
}

std::string placement_json(const PlacementState& placement) {
  JsonObject out;
  out.number("nodes", placement.nodes).number("queues", placement.queues).number("share", placement.share);
  return out.number("held", placement.held)
      .text_or_null("givingBack", placement.giving_back.value_or(""))
      .done();
}

}  // namespace

std::string_view name_of(QueueState state) {
  switch (state) {
    case QueueState::claiming:
      return "claiming";
    case QueueState::held:
      return "held";
    case QueueState::restoring:
      return "restoring";
    case QueueState::filling:
      return "filling";
    case QueueState::intent:
      return "intent";
    case QueueState::upload:
      return "upload";
    case QueueState::commit:
      return "commit";
    case QueueState::drained:
      return "drained";
    case QueueState::fenced:
      return "fenced";
    case QueueState::failed:
      return "failed";
    case QueueState::missing:
      return "missing";
    case QueueState::crashed:
      return "crashed";
    case QueueState::released:
      return "released";
  }
  return "";
}

void StatusBoard::set_queue(const std::string& queue, const QueueRow& row) {
  const std::lock_guard lock(mutex_);
  queues_[queue] = row;
}

void StatusBoard::set_bucket(BucketState bucket) {
  const std::lock_guard lock(mutex_);
  bucket_ = std::move(bucket);
}

void StatusBoard::set_placement(PlacementState placement) {
  const std::lock_guard lock(mutex_);
  placement_ = std::move(placement);
}

void StatusBoard::health_begin(const std::string& queue, std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  health_.begin(queue, now_us);
}

void StatusBoard::health_report(const std::string& queue, std::int64_t lag_us, std::int64_t now_us) {
  const std::lock_guard lock(mutex_);
  health_.report(queue, lag_us, now_us);
}

void StatusBoard::health_forget(const std::string& queue) {
  const std::lock_guard lock(mutex_);
  health_.forget(queue);
}

StatusBoard::Snapshot StatusBoard::snapshot(std::int64_t now_us) const {
  const std::lock_guard lock(mutex_);
  return {.queues = queues_, .bucket = bucket_, .placement = placement_, .health = health_.verdict(now_us)};
}

std::string unit_json(const UnitState& unit, const UnitSettings* settings, const NodeState& node,
                      const StatusBoard::Snapshot& now) {
  JsonObject out;
  out.text("tenant", unit.tenant).text("source", unit.source).text_or_null("cluster", unit.cluster);
  out.text("phase", unit.phase).text_or_null("error", unit.error).number("restarts", unit.restarts);
  out.text_or_null("lastExit", unit.last_exit).number("uptimeMs", unit.uptime_us / 1000);
  out.number("backoffMs", unit.backoff_us / 1000);
  const bool running = unit.phase == "running";
  out.boolean("ok", settings != nullptr && now.health.ok && now.bucket.reachable.value_or(true));
  if (settings != nullptr) out.text("sink", settings->sink);
  out.text("instance", node.node.instance).text("version", node.version).boolean("running", running);
  if (settings != nullptr) {
    out.raw("bucket", bucket_json(*settings, now.bucket));
    out.text("format", lake::name_of(settings->kind.format));
    out.text("compression", lake::name_of(settings->kind.codec));
    out.text("layout", name_of(settings->layout)).text("align", name_of(settings->align));
  }
  out.raw("health", health_json(now.health)).raw("placement", placement_json(now.placement));
  JsonObject memory;
  memory.number("bufferedBytes", node.buffered_bytes).number("limitBytes", node.node.memory_bytes);
  out.raw("memory", memory.done());
  std::string rows = "[";
  for (const auto& [name, row] : now.queues) {
    if (rows.size() > 1) rows += ',';
    rows += queue_json(name, row);
  }
  return out.raw("queues", rows + "]").done();
}

}  // namespace queen::sink
