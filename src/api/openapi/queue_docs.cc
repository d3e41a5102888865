// Queues and the figures of the dashboard (api-messaging.md 10).
#include <array>

#include "api/openapi/route_doc.h"

namespace queen::api {
namespace {

using http::Method;

constexpr std::array kConfigureAnswers = {
    AnswerDoc{200, "The queue as it is now.", R"({"$ref":"#/components/schemas/ConfigureAnswer"})"},
    AnswerDoc{400, "A field is refused.", R"({"$ref":"#/components/schemas/Refusal"})"}};
constexpr std::array kQueuesQuery = {
    QueryDoc{"stats", R"({"type":"string"})", "lanes: the cheap form, without message counts."}};
constexpr std::array kQueuesAnswers = {
    AnswerDoc{200, "The newest queue first.", R"({"$ref":"#/components/schemas/QueuesAnswer"})"}};
constexpr AnswerDoc kNoQueue{404, "No such queue.", R"({"$ref":"#/components/schemas/Refusal"})"};
constexpr std::array kQueueAnswers = {
    AnswerDoc{200, "The queue with its partitions.", R"({"$ref":"#/components/schemas/QueueDetail"})"},
    kNoQueue};
constexpr std::array kDepthQuery = {
    QueryDoc{"group", R"({"type":"string"})", "Absent: the worst named group."}};
constexpr std::array kDepthAnswers = {
    AnswerDoc{200, "What is pending for the group.", R"({"$ref":"#/components/schemas/DepthAnswer"})"},
    kNoQueue};
constexpr std::array kSizesAnswers = {
    AnswerDoc{200, "Retained bytes by partition.", R"({"$ref":"#/components/schemas/SizesAnswer"})"},
    kNoQueue};
constexpr std::array kQueueDeleteAnswers = {
    AnswerDoc{200, "The queue is gone.", R"({"$ref":"#/components/schemas/QueueDeleteAnswer"})"}};
constexpr std::array kPartitionsQuery = {
    QueryDoc{"queue", R"({"type":"string"})", "Partitions of this queue alone."},
    QueryDoc{"limit", R"({"type":"integer","default":610})", "Rows, used within 1 and 5000."}};
constexpr std::array kPartitionsAnswers = {AnswerDoc{200, "The partitions with most pending messages first.",
                                                     R"({"$ref":"#/components/schemas/PartitionsAnswer"})"},
                                           kNoQueue};
constexpr std::array kNamespacesAnswers = {
    AnswerDoc{200, "Figures by label.", R"({"$ref":"#/components/schemas/NamespacesAnswer"})"}};
constexpr std::array kTasksAnswers = {
    AnswerDoc{200, "Figures by label.", R"({"$ref":"#/components/schemas/TasksAnswer"})"}};
constexpr std::array kOverviewAnswers = {
    AnswerDoc{200, "Figures of everything.", R"({"$ref":"#/components/schemas/OverviewAnswer"})"}};

constexpr std::array kDocs = {
    RouteDoc{Method::post,
             "/api/v1/configure",
             "configure",
             "queues",
             "Make or change a queue",
             {},
             R"({"$ref":"#/components/schemas/ConfigureRequest"})",
             true,
             kConfigureAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/resources/queues",
             "listQueues",
             "queues",
             "List queues",
             kQueuesQuery,
             "",
             false,
             kQueuesAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/resources/queues/:queue",
             "getQueue",
             "queues",
             "One queue",
             {},
             "",
             false,
             kQueueAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/resources/queues/:queue/depth",
             "queueDepth",
             "queues",
             "Pending messages of a group",
             kDepthQuery,
             "",
             false,
             kDepthAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/resources/queues/:queue/sizes",
             "queueSizes",
             "queues",
             "Retained bytes of each partition",
             {},
             "",
             false,
             kSizesAnswers,
             {}},
    RouteDoc{Method::del,
             "/api/v1/resources/queues/:queue",
             "deleteQueue",
             "queues",
             "Delete a queue with everything in it",
             {},
             "",
             false,
             kQueueDeleteAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/resources/partitions",
             "listPartitions",
             "queues",
             "Busiest partitions",
             kPartitionsQuery,
             "",
             false,
             kPartitionsAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/resources/namespaces",
             "listNamespaces",
             "queues",
             "Figures by namespace",
             {},
             "",
             false,
             kNamespacesAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/resources/tasks",
             "listTasks",
             "queues",
             "Figures by task",
             {},
             "",
             false,
             kTasksAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/resources/overview",
             "overview",
             "queues",
             "Figures of everything",
             {},
             "",
             false,
             kOverviewAnswers,
             {}},
};

}  // namespace

std::span<const RouteDoc> queue_docs() {
  return kDocs;
}

}  // namespace queen::api
