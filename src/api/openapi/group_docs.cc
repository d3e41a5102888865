// Consumer groups (api-messaging.md 9).
#include <array>

#include "api/openapi/route_doc.h"

namespace queen::api {
namespace {

using http::Method;

constexpr std::array kListAnswers = {
    AnswerDoc{200, "One row for each group and queue.",
              R"({"type":"array","items":{"$ref":"#/components/schemas/ConsumerGroup"}})"}};
constexpr std::array kGroupAnswers = {
    AnswerDoc{200, "The group's partitions by queue.",
              R"({"$ref":"#/components/schemas/ConsumerGroupDetail"})"},
    AnswerDoc{404, "The group has no cursor.", R"({"$ref":"#/components/schemas/Refusal"})"}};
constexpr std::array kLaggingQuery = {
    QueryDoc{"minLagSeconds", R"({"type":"integer","default":3600})", "Cursors that lag by more than this."}};
constexpr std::array kLaggingAnswers = {
    AnswerDoc{200, "The largest lag first.",
              R"({"type":"array","items":{"$ref":"#/components/schemas/LaggingCursor"}})"}};
constexpr std::array kPositionsAnswers = {AnswerDoc{200, "One answer for each entry, in their order.",
                                                    R"({"$ref":"#/components/schemas/PositionsAnswer"})"}};
constexpr std::array kSeekAnswers = {
    AnswerDoc{200, "The cursors moved.", R"({"$ref":"#/components/schemas/SeekAnswer"})"},
    AnswerDoc{400, "Neither toEnd nor a timestamp.", R"({"anyOf":[{"$ref":"#/components/schemas/Refusal"},
{"$ref":"#/components/schemas/Error"}]})"},
    AnswerDoc{404, "No such queue or partition.", R"({"$ref":"#/components/schemas/Refusal"})"}};
constexpr std::array kSubscriptionAnswers = {
    AnswerDoc{200, "The policy is stored.", R"({"$ref":"#/components/schemas/SubscriptionAnswer"})"}};
constexpr std::array kDeleteQuery = {
    QueryDoc{"deleteMetadata", R"({"type":"string","default":"true"})", "false keeps the registration."}};
constexpr std::array kDeleteAnswers = {
    AnswerDoc{200, "The group's cursors are gone.", R"({"$ref":"#/components/schemas/GroupDeleteAnswer"})"}};

constexpr std::array kDocs = {
    RouteDoc{Method::get,
             "/api/v1/consumer-groups",
             "listGroups",
             "consumer groups",
             "List groups",
             {},
             "",
             false,
             kListAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/consumer-groups/lagging",
             "laggingGroups",
             "consumer groups",
             "Cursors that lag behind",
             kLaggingQuery,
             "",
             false,
             kLaggingAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/consumer-groups/:group",
             "getGroup",
             "consumer groups",
             "A group's cursors",
             {},
             "",
             false,
             kGroupAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/consumer-groups/positions",
             "positions",
             "consumer groups",
             "Where a group stands",
             {},
             R"({"$ref":"#/components/schemas/PositionsRequest"})",
             true,
             kPositionsAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/consumer-groups/:group/queues/:queue/seek",
             "seekQueue",
             "consumer groups",
             "Move a group in every partition of a queue",
             {},
             R"({"$ref":"#/components/schemas/SeekRequest"})",
             false,
             kSeekAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek",
             "seekPartition",
             "consumer groups",
             "Move a group in one partition",
             {},
             R"({"$ref":"#/components/schemas/SeekRequest"})",
             false,
             kSeekAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/consumer-groups/:group/subscription",
             "setSubscription",
             "consumer groups",
             "Where partitions without a cursor start",
             {},
             R"({"$ref":"#/components/schemas/SubscriptionRequest"})",
             true,
             kSubscriptionAnswers,
             {}},
    RouteDoc{Method::del,
             "/api/v1/consumer-groups/:group",
             "deleteGroup",
             "consumer groups",
             "Delete a group on every queue",
             kDeleteQuery,
             "",
             false,
             kDeleteAnswers,
             {}},
    RouteDoc{Method::del,
             "/api/v1/consumer-groups/:group/queues/:queue",
             "deleteGroupOnQueue",
             "consumer groups",
             "Delete a group on one queue",
             kDeleteQuery,
             "",
             false,
             kDeleteAnswers,
             {}},
};

}  // namespace

std::span<const RouteDoc> group_docs() {
  return kDocs;
}

}  // namespace queen::api
