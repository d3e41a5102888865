// Ranges, buckets and sums of the figures (operations.md 6.2).
#include "api/detail/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "api/detail/instant.h"

namespace queen::api {
namespace {

constexpr std::int64_t kMinuteUs = 60'000'000;
constexpr std::int64_t kHourUs = 60 * kMinuteUs;

struct Width {
  double up_to_minutes;
  std::int64_t bucket_minutes;
};
constexpr std::array kWidths = {Width{60, 1}, Width{360, 5}, Width{1440, 15}, Width{10'080, 60}};
constexpr std::int64_t kWidest = 360;

}  // namespace

JsonWriter& JsonWriter::decimal(double value) {
  return raw(fmt::format("{}", std::isfinite(value) ? std::round(value * 100) / 100 : 0.0));
}

std::int64_t bucket_minutes(std::int64_t from_us, std::int64_t to_us, Span span) {
  double minutes = static_cast<double>(to_us - from_us) / static_cast<double>(kMinuteUs);
  if (span == Span::whole_minutes) minutes = std::round(minutes);
  for (const Width& width : kWidths)
    if (minutes <= width.up_to_minutes) return width.bucket_minutes;
  return kWidest;
}

// The minute, floored to the width inside its hour.
std::int64_t FigureRange::bucket_of(std::int64_t us) const {
  const std::int64_t hour = us - ((us % kHourUs) + kHourUs) % kHourUs;
  const std::int64_t minute = (us - hour) / kMinuteUs;
  return hour + minute / bucket_minutes * bucket_minutes * kMinuteUs;
}

std::optional<FigureRange> figure_range(const Query& query, std::int64_t now_us, Span span) {
  FigureRange out{now_us - kHourUs, now_us, 1};
  const auto read = [&](std::string_view name, std::int64_t& into) {
    const auto text = query.filled(name);
    if (!text) return true;
    const auto instant = parse_instant_ms(*text);
    into = instant.value_or(0);
    return instant.has_value();
  };
  if (!read("from", out.from_us) || !read("to", out.to_us)) return std::nullopt;
  out.bucket_minutes = bucket_minutes(out.from_us, out.to_us, span);
  return out;
}

http::Response figures_fault(std::string_view text) {
  std::string body;
  JsonWriter(body).open('{').name("error").text(text).close('}');
  return json_response(500, std::move(body));
}

void FigureSum::add(const broker::NodeRow& row) {
  ops += row.ops;
  loop += row.loop;
  gauges += row.gauges;
  last_seen_us = std::max(last_seen_us, row.until_us);
  of_node = true;
}

void FigureSum::add(const broker::QueueOpsRow& row) {
  ops += row.ops;
  parked = std::max(parked, row.parked);
}

FigureBuckets buckets_of(std::vector<broker::NodeRow> rows, const FigureRange& range) {
  std::ranges::stable_sort(rows, {}, &broker::NodeRow::from_us);  // so that the last look is the last
  FigureBuckets out;
  for (const broker::NodeRow& row : rows) out[range.bucket_of(row.from_us)].add(row);
  return out;
}

std::vector<broker::QueueOpsRow> living(std::vector<broker::QueueOpsRow> rows, const QueueAges& ages) {
  std::erase_if(rows, [&](const broker::QueueOpsRow& row) {
    const auto age = ages.find(row.queue);
    return age == ages.end() || broker::minute_of(row.from_us) < broker::minute_of(age->second);
  });
  return rows;
}

QueueAges ages_of(broker::Broker& broker, const std::string& tenant) {
  QueueAges out;
  for (auto& queue : broker.queues(tenant, broker::QueueDetail::names).queues)
    out.emplace(std::move(queue.name), queue.row.created_at);
  return out;
}

void write_time_range(JsonWriter& out, const FigureRange& range) {
  out.name("timeRange").open('{').name("from").instant_ms(range.from_us).name("to").instant_ms(range.to_us);
  out.close('}');
}

void write_rate(JsonWriter& out, std::string_view name, std::uint64_t count, const FigureRange& range) {
  out.name(name).decimal(static_cast<double>(count) / range.seconds());
}

void write_lag_ms(JsonWriter& out, std::string_view average, std::string_view most, const broker::LagSum& lag,
                  NoLag none) {
  if (lag.count == 0) {
    const std::string_view empty = none == NoLag::null ? "null" : "0";
    out.name(average).raw(empty).name(most).raw(empty);
    return;
  }
  out.name(average).decimal(static_cast<double>(lag.sum_us) / static_cast<double>(lag.count) / 1000);
  out.name(most).decimal(static_cast<double>(lag.max_us) / 1000);
}

void write_worker(JsonWriter& out, const std::string& node_name, const FigureSum& sum) {
  using broker::Op;
  out.open('{').name("hostname").text(node_name).name("workerId").number(0);
  write_lag_ms(out, "avgEventLoopLagMs", "maxEventLoopLagMs", sum.loop, NoLag::zero);
  out.name("freeSlots").null().name("dbConnections").null().name("jobQueueSize").null();
  out.name("messagesProcessed")
      .number(sum.ops[Op::push_messages] + sum.ops[Op::pop_messages] + sum.ops.acks());
}

std::optional<FigureSum> seen_since(const broker::Meter& meter, std::int64_t since_us) {
  std::optional<FigureSum> out;
  // The period that runs may have begun so long ago (METRICS_FLUSH_MS).
  constexpr std::int64_t kPeriodUsMax = kHourUs + kMinuteUs;
  for (const broker::NodeRow& row : meter.node_rows(since_us - kPeriodUsMax, since_us + kPeriodUsMax)) {
    if (row.until_us < since_us) continue;
    if (!out) out.emplace();
    out->add(row);
  }
  return out;
}

}  // namespace queen::api
