#include "sink/metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ids.h"
#include "base/prometheus_text.h"

namespace queen::sink {
namespace {

using Type = PrometheusText::Type;
using Labels = PrometheusText::Labels;
using Counters = std::map<std::string, TenantCounters>;

// `tenant` stands first, and is left out for the default tenant (23).
Labels labels_of(const std::string& tenant, Labels more = {}) {
  if (tenant != kDefaultTenant) more.insert(more.begin(), {"tenant", tenant});
  return more;
}

// Tenants in the order of their series: `queue` sorts before `tenant`, so the default tenant is first.
template <class Map, class Visit>
void each_tenant(const Map& tenants, const Visit& visit) {
  const std::string first(kDefaultTenant);
  if (const auto found = tenants.find(first); found != tenants.end()) visit(found->first, found->second);
  for (const auto& [tenant, value] : tenants) {
    if (tenant != first) visit(tenant, value);
  }
}

class Exposition {
 public:
  void family(std::string_view name, Type type, std::string_view help) {
    out_.family(name, type, help, PrometheusText::Shown::always);
  }
  // One sample for each queue for which `value` gives one.
  template <class Value>
  void gauge_of_queues(const SinkQueues& running, const Value& value) {
    each_tenant(running, [&](const std::string& tenant, const auto& queues) {
      for (const auto& [queue, row] : queues) {
        if (!row.owned_here) continue;
        if (const auto found = value(row)) out_.sample(labels_of(tenant, {{"queue", queue}}), *found);
      }
    });
  }
  template <class Value>
  void counter_of_queues(const Counters& counters, const Value& value) {
    each_tenant(counters, [&](const std::string& tenant, const TenantCounters& of) {
      for (const auto& [queue, counted] : of.queues)
        out_.sample(labels_of(tenant, {{"queue", queue}}), value(counted));
    });
  }
  template <class Write>
  void each(const Counters& counters, const Write& write) {
    each_tenant(counters,
                [&](const std::string& tenant, const TenantCounters& of) { write(out_, tenant, of); });
  }
  PrometheusText& out() { return out_; }

 private:
  PrometheusText out_;
};

void write_lags(Exposition& out, const SinkQueues& running, std::int64_t wall_us) {
  out.family("queen_s3_lag_seconds", Type::gauge, "How far the lake of a queue is behind the applied log.");
  out.gauge_of_queues(running, [](const QueueRow& row) {
    return row.lag_us ? std::optional(static_cast<double>(*row.lag_us) / 1e6) : std::nullopt;
  });
  out.family("queen_s3_safe_lag_seconds", Type::gauge,
             "How far the applied log is behind the clock of this node.");
  std::optional<std::int64_t> safe;
  for (const auto& [tenant, queues] : running) {
    for (const auto& [queue, row] : queues) {
      if (row.owned_here && row.safe_time) safe = std::max(safe.value_or(*row.safe_time), *row.safe_time);
    }
  }
  if (safe) out.out().sample({}, static_cast<double>(wall_us - *safe) / 1e6);
}

void write_windows(Exposition& out, const Counters& counters) {
  out.family("queen_s3_windows_committed_total", Type::counter, "Windows committed.");
  out.counter_of_queues(counters, [](const QueueCounters& queue) { return queue.windows; });
  out.family("queen_s3_records_written_total", Type::counter, "Records in committed windows.");
  out.counter_of_queues(counters, [](const QueueCounters& queue) { return queue.records; });
  out.family("queen_s3_bytes_written_total", Type::counter, "Bytes of the objects of committed windows.");
  out.each(counters, [](PrometheusText& text, const std::string& tenant, const TenantCounters& of) {
    for (const auto& [queue, counted] : of.queues) {
      for (const auto& [format, bytes] : counted.bytes)
        text.sample(labels_of(tenant, {{"queue", queue}, {"format", format}}), bytes);
    }
  });
  out.family("queen_s3_records_lost_total", Type::counter,
             "Records that retention removed before they were read.");
  out.counter_of_queues(counters, [](const QueueCounters& queue) { return queue.lost; });
  out.family("queen_s3_window_records", Type::histogram, "Records of a committed window.");
  out.each(counters, [](PrometheusText& text, const std::string& tenant, const TenantCounters& of) {
    text.histogram(labels_of(tenant), kWindowRecordBounds, of.window_records.counts, of.window_records.sum);
  });
  out.family("queen_s3_window_bytes", Type::histogram, "Bytes of the objects of a committed window.");
  out.each(counters, [](PrometheusText& text, const std::string& tenant, const TenantCounters& of) {
    text.histogram(labels_of(tenant), kWindowByteBounds, of.window_bytes.counts, of.window_bytes.sum);
  });
}

void write_reads(Exposition& out, const Counters& counters, const SinkQueues& running) {
  out.family("queen_s3_fetch_calls_total", Type::counter, "Reads of the log.");
  out.each(counters, [](PrometheusText& text, const std::string& tenant, const TenantCounters& of) {
    for (const auto& [queue, counted] : of.queues) {
      text.sample(labels_of(tenant, {{"queue", queue}, {"result", "error"}}), counted.fetch_failed);
      text.sample(labels_of(tenant, {{"queue", queue}, {"result", "ok"}}), counted.fetch_ok);
    }
  });
  out.family("queen_s3_discovery_partitions", Type::gauge, "Partitions that the last complete sweep found.");
  out.gauge_of_queues(running, [](const QueueRow& row) { return row.swept_partitions; });
  out.family("queen_s3_s3_requests_total", Type::counter,
             "Attempts of requests to the bucket; code 0 is no answer.");
  out.each(counters, [](PrometheusText& text, const std::string& tenant, const TenantCounters& of) {
    for (const auto& [request, count] : of.requests) {
      const std::string code = fmt::format("{}", request.second);
      text.sample(labels_of(tenant, {{"op", request.first}, {"code", code}}), count);
    }
  });
}

void write_placement(Exposition& out, const Counters& counters, const SinkQueues& running) {
  out.family("queen_s3_commit_precondition_lost_total", Type::counter,
             "Intents and commits that lost a precondition, because another node owns the queue.");
  out.each(counters, [](PrometheusText& text, const std::string& tenant, const TenantCounters& of) {
    text.sample(labels_of(tenant), of.precondition_lost);
  });
  out.family("queen_s3_checkpoint_age_windows", Type::gauge, "Windows committed since the last checkpoint.");
  out.gauge_of_queues(running, [](const QueueRow& row) { return row.checkpoint_age_windows; });
  out.family("queen_s3_queues_given_back_total", Type::counter, "Queues given back to other nodes.");
  out.each(counters, [](PrometheusText& text, const std::string& tenant, const TenantCounters& of) {
    text.sample(labels_of(tenant), of.given_back);
  });
}

}  // namespace

void MetricRegistry::begin_tenant(const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  tenants_.try_emplace(tenant);
}

void MetricRegistry::begin_queue(const std::string& tenant, const std::string& queue, lake::Format format) {
  const std::lock_guard lock(mutex_);
  tenants_[tenant].queues[queue].bytes.try_emplace(std::string(lake::name_of(format)), 0);
}

void MetricRegistry::count_window(const std::string& tenant, const std::string& queue, lake::Format format,
                                  const CommittedWindow& window) {
  const std::lock_guard lock(mutex_);
  TenantCounters& of = tenants_[tenant];
  QueueCounters& counted = of.queues[queue];
  ++counted.windows;
  counted.records += window.records;
  counted.lost += window.lost;
  counted.bytes[std::string(lake::name_of(format))] += window.bytes;
  of.window_records.observe(kWindowRecordBounds, window.records);
  of.window_bytes.observe(kWindowByteBounds, window.bytes);
}

void MetricRegistry::count_fetch(const std::string& tenant, const std::string& queue, bool answered) {
  const std::lock_guard lock(mutex_);
  QueueCounters& counted = tenants_[tenant].queues[queue];
  ++(answered ? counted.fetch_ok : counted.fetch_failed);
}

void MetricRegistry::count_request(const std::string& tenant, std::string_view op, int status) {
  const std::lock_guard lock(mutex_);
  ++tenants_[tenant].requests[{std::string(op), status}];
}

void MetricRegistry::count_precondition_lost(const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  ++tenants_[tenant].precondition_lost;
}

void MetricRegistry::count_given_back(const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  ++tenants_[tenant].given_back;
}

void MetricRegistry::forget(const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  tenants_.erase(tenant);
}

std::map<std::string, TenantCounters> MetricRegistry::snapshot() const {
  const std::lock_guard lock(mutex_);
  return tenants_;
}

std::string metrics_text(const std::map<std::string, TenantCounters>& counters, const SinkQueues& running,
                         std::uint64_t buffered_bytes, std::int64_t wall_us) {
  Exposition out;
  write_lags(out, running, wall_us);
  write_windows(out, counters);
  out.family("queen_s3_buffer_bytes", Type::gauge, "Weight of the buffered records of all sinks.");
  out.out().sample({}, buffered_bytes);
  write_reads(out, counters, running);
  write_placement(out, counters, running);
  return out.out().take();
}

}  // namespace queen::sink
