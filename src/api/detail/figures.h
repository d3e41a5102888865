// What the routes of operations.md 6 share: the range of a query, its buckets, and figures as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/detail/context.h"
#include "api/detail/query.h"
#include "api/json_writer.h"
#include "broker/dead_letters.h"
#include "broker/meter.h"
#include "broker/resources.h"

namespace queen::api {

struct FigureRange {
  std::int64_t from_us = 0, to_us = 0;  // both inclusive
  std::int64_t bucket_minutes = 1;

  std::int64_t bucket_of(std::int64_t us) const;
  double seconds() const { return static_cast<double>(bucket_minutes) * 60; }
};
// Whether a span is rounded to whole minutes before it chooses the width of the buckets.
enum class Span : bool { exact, whole_minutes };
std::int64_t bucket_minutes(std::int64_t from_us, std::int64_t to_us, Span span);

// `from` and `to`; the last hour of `now_us` when absent. Nothing when one does not parse: figures_fault().
std::optional<FigureRange> figure_range(const Query& query, std::int64_t now_us,
                                        Span span = Span::whole_minutes);
// 500 with the error, as 6.2 has it.
http::Response figures_fault(std::string_view text);

// Of rows of nodes, or of queues: what a bucket has in all.
struct FigureSum {
  broker::OpCounts ops;
  broker::LagSum loop;
  broker::GaugeLooks gauges;
  std::uint64_t parked = 0;  // the most of any row
  std::int64_t last_seen_us = 0;
  bool of_node = false;

  void add(const broker::NodeRow& row);
  void add(const broker::QueueOpsRow& row);
};
using FigureBuckets = std::map<std::int64_t, FigureSum>;  // by the start of the bucket
FigureBuckets buckets_of(std::vector<broker::NodeRow> rows, const FigureRange& range);

// Rows of queues that are there and of their time: a queue that was made again starts anew. `created_at` by
// name.
using QueueAges = std::map<std::string, std::int64_t, std::less<>>;
std::vector<broker::QueueOpsRow> living(std::vector<broker::QueueOpsRow> rows, const QueueAges& ages);
QueueAges ages_of(broker::Broker& broker, const std::string& tenant);

void write_time_range(JsonWriter& out, const FigureRange& range);
void write_rate(JsonWriter& out, std::string_view name, std::uint64_t count, const FigureRange& range);
// Milliseconds of `lag`; what stands where there is none: null or 0.
enum class NoLag : bool { null, zero };
void write_lag_ms(JsonWriter& out, std::string_view average, std::string_view most, const broker::LagSum& lag,
                  NoLag none);
// A node that was seen lately: hostname, workerId and so on, left open.
void write_worker(JsonWriter& out, const std::string& node_name, const FigureSum& sum);
// Of the rows of this node that were still running at `since_us`.
std::optional<FigureSum> seen_since(const broker::Meter& meter, std::int64_t since_us);

// An error text with what differs from letter to letter folded away: `job <n> died at <date>`.
std::string error_signature(std::string_view error);
std::string render_signatures(std::string_view queue, const broker::DeadLetterPage& page);

void handle_status(const SharedContext& context, Inbound inbound);
void handle_status_queues(const SharedContext& context, Inbound inbound);
void handle_status_queue(const SharedContext& context, Inbound inbound);
void handle_status_analytics(const SharedContext& context, Inbound inbound);
void handle_status_buffers(const SharedContext& context, Inbound inbound);
void handle_stats_refresh(const SharedContext& context, Inbound inbound);
void handle_system_metrics(const SharedContext& context, Inbound inbound);
void handle_worker_metrics(const SharedContext& context, Inbound inbound);
void handle_queue_ops(const SharedContext& context, Inbound inbound);
void handle_queue_lag(const SharedContext& context, Inbound inbound);
void handle_parked_replicas(const SharedContext& context, Inbound inbound);
void handle_dlq_signatures(const SharedContext& context, Inbound inbound);

}  // namespace queen::api
