// The operator's figures (operations.md 6).
#include <array>

#include "api/openapi/route_doc.h"

namespace queen::api {
namespace {

using http::Method;

constexpr std::string_view kInstant = R"({"type":"string","format":"date-time"})";
constexpr std::string_view kText = R"({"type":"string"})";
constexpr std::string_view kFromText = "Inclusive; an hour ago when absent. One that does not parse: 500.";
constexpr std::string_view kToText = "Inclusive; now when absent. One that does not parse: 500.";

constexpr std::array kStatusQuery = {QueryDoc{"from", kInstant, kFromText}, QueryDoc{"to", kInstant, kToText},
                                     QueryDoc{"queue", kText, "Count this queue alone."},
                                     QueryDoc{"namespace", kText, "Count queues with this label alone."},
                                     QueryDoc{"task", kText, "Count queues with this label alone."}};
constexpr std::array kQueueQuery = {QueryDoc{"from", kInstant, kFromText}, QueryDoc{"to", kInstant, kToText},
                                    QueryDoc{"queue", kText, "This queue alone."}};
constexpr std::array kSystemQuery = {QueryDoc{"from", kInstant, kFromText}, QueryDoc{"to", kInstant, kToText},
                                     QueryDoc{"hostname", kText, "This node alone."},
                                     QueryDoc{"workerId", kText, "This worker alone."}};
constexpr std::array kWorkerQuery = {
    QueryDoc{"from", kInstant, kFromText}, QueryDoc{"to", kInstant, kToText},
    QueryDoc{"hostname", kText, "This node alone."},
    QueryDoc{"workerId", R"({"type":"integer","minimum":0,"maximum":1000000})",
             "This worker alone. No integer: 500."}};

constexpr std::array kSignaturesQuery = {
    QueryDoc{"queue", R"({"type":"string","minLength":1})", "The queue of the dead letters.", true},
    QueryDoc{"limit", R"({"type":"integer","default":200})",
             "Newest dead letters to look at, used within 1 and 1000."}};

constexpr AnswerDoc kFault{500, "A value of the query does not parse.",
                           R"({"$ref":"#/components/schemas/Refusal"})"};
constexpr std::array kStatusAnswers = {AnswerDoc{200, "Throughput by bucket, and how the queues stand now.",
                                                 R"({"$ref":"#/components/schemas/StatusAnswer"})"},
                                       kFault};
constexpr std::array kStatusQueuesAnswers = {
    AnswerDoc{200, "The queues, newest first.", R"({"$ref":"#/components/schemas/QueuesAnswer"})"}};
constexpr std::array kStatusQueueAnswers = {
    AnswerDoc{200, "The queue.", R"({"$ref":"#/components/schemas/QueueStatus"})"},
    AnswerDoc{404, "No such queue.", R"({"$ref":"#/components/schemas/Refusal"})"}};
constexpr std::array kAnalyticsAnswers = {AnswerDoc{200, "The messages that are retained now.",
                                                    R"({"$ref":"#/components/schemas/StatusAnalytics"})"}};
constexpr std::array kBuffersAnswers = {
    AnswerDoc{200, "Entries on their way.", R"({"$ref":"#/components/schemas/StatusBuffers"})"}};
constexpr std::array kRefreshAnswers = {
    AnswerDoc{200, "Nothing had to be done.", R"({"$ref":"#/components/schemas/StatsRefreshed"})"}};
constexpr std::array kSystemAnswers = {
    AnswerDoc{200, "Gauges of each node.", R"({"$ref":"#/components/schemas/SystemMetrics"})"}, kFault};
constexpr std::array kWorkerAnswers = {
    AnswerDoc{200, "Counts of all nodes.", R"({"$ref":"#/components/schemas/WorkerMetrics"})"}, kFault};
constexpr std::array kOpsAnswers = {
    AnswerDoc{200, "Counts by bucket and queue.", R"({"$ref":"#/components/schemas/QueueOps"})"}, kFault};
constexpr std::array kLagAnswers = {
    AnswerDoc{200, "Delays of deliveries by bucket and queue, the newest bucket first.",
              R"({"$ref":"#/components/schemas/QueueLag"})"},
    kFault};
constexpr std::array kParkedAnswers = {AnswerDoc{200, "Long polls that waited, by bucket, queue and node.",
                                                 R"({"$ref":"#/components/schemas/ParkedReplicas"})"},
                                       kFault};
constexpr std::array kSignaturesAnswers = {
    AnswerDoc{200, "What the dead letters have in common.",
              R"({"$ref":"#/components/schemas/DeadLetterSignatures"})"},
    AnswerDoc{400, "No queue is named.", R"({"$ref":"#/components/schemas/Refusal"})"}};

constexpr RouteDoc reads(std::string_view pattern, std::string_view id, std::string_view summary,
                         std::span<const QueryDoc> query, std::span<const AnswerDoc> answers) {
  return {Method::get, pattern, id, "figures", summary, query, "", false, answers, {}};
}

constexpr std::array kDocs = {
    reads("/api/v1/status", "figures", "Throughput and standing", kStatusQuery, kStatusAnswers),
    reads("/api/v1/status/queues", "queueFigures", "Figures of the queues", {}, kStatusQueuesAnswers),
    reads("/api/v1/status/queues/:queue", "queueStatus", "One queue with its partitions", {},
          kStatusQueueAnswers),
    reads("/api/v1/status/analytics", "analytics", "Messages retained now", {}, kAnalyticsAnswers),
    reads("/api/v1/status/buffers", "buffers", "Entries on their way", {}, kBuffersAnswers),
    RouteDoc{Method::post,
             "/api/v1/stats/refresh",
             "refreshStats",
             "figures",
             "Kept for older clients: figures are always fresh",
             {},
             R"({"type":"object"})",
             false,
             kRefreshAnswers,
             {}},
    reads("/api/v1/analytics/system-metrics", "systemMetrics", "Gauges of the nodes", kSystemQuery,
          kSystemAnswers),
    reads("/api/v1/analytics/worker-metrics", "workerMetrics", "Counts of the nodes", kWorkerQuery,
          kWorkerAnswers),
    reads("/api/v1/analytics/queue-ops", "queueOps", "Counts of the queues", kQueueQuery, kOpsAnswers),
    reads("/api/v1/analytics/queue-lag", "queueLag", "Delays of deliveries", kQueueQuery, kLagAnswers),
    reads("/api/v1/analytics/dlq-signatures", "deadLetterSignatures", "What dead letters have in common",
          kSignaturesQuery, kSignaturesAnswers),
    reads("/api/v1/analytics/queue-parked-replicas", "queueParkedReplicas", "Long polls that waited",
          kQueueQuery, kParkedAnswers),
};

}  // namespace

std::span<const RouteDoc> figure_docs() {
  return kDocs;
}

}  // namespace queen::api
