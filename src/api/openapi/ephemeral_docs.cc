// In-memory queues (api-state.md 6).
#include <array>

#include "api/openapi/route_doc.h"

namespace queen::api {
namespace {

using http::Method;

constexpr std::array kLimited = {429};
constexpr std::array kPopQuery = {
    QueryDoc{"queue", R"({"type":"string","minLength":1,"maxLength":512})", "The queue.", true},
    QueryDoc{"partition", R"({"type":"string","minLength":1,"maxLength":512})",
             "This partition alone; else all in name order."},
    QueryDoc{"group", R"({"type":"string","maxLength":512})",
             "The consumer group; none: the cursor that all such pops share."},
    QueryDoc{"batch", R"({"type":"integer","default":1})", "Most messages, used within 1 and 10,000."},
    QueryDoc{"wait", R"({"type":"boolean","default":false})", "Wait for a message."},
    QueryDoc{"timeout", R"({"type":"integer"})", "Longest wait in ms, used within 0 and 300,000."},
    QueryDoc{"commitOnDelivery", R"({"type":"boolean","default":false})",
             "No lease: given messages are settled."},
    QueryDoc{"autoAck", R"({"type":"boolean","default":false})", "Older name of commitOnDelivery."}};
constexpr std::array kDepthQuery = {
    QueryDoc{"group", R"({"type":"string"})", "The group whose pending messages are counted."}};
constexpr std::array kPushAnswers = {
    AnswerDoc{201, "How many are in: all.", R"({"$ref":"#/components/schemas/EphemeralPushed"})"}};
constexpr std::array kPopAnswers = {AnswerDoc{200, "The messages; an empty list when there are none.",
                                              R"({"$ref":"#/components/schemas/EphemeralMessages"})"}};
constexpr std::array kAckAnswers = {
    AnswerDoc{200, "What became of each.", R"({"$ref":"#/components/schemas/EphemeralAcked"})"}};
constexpr std::array kConfigureAnswers = {
    AnswerDoc{201, "The declaration as stored.", R"({"$ref":"#/components/schemas/EphemeralDeclaration"})"}};
constexpr std::array kResetAnswers = {
    AnswerDoc{200, "How many messages went.", R"({"$ref":"#/components/schemas/EphemeralReset"})"}};
constexpr std::array kDeleteAnswers = {AnswerDoc{200, "Whether there was something, and a declaration.",
                                                 R"({"$ref":"#/components/schemas/EphemeralDeleted"})"}};
constexpr std::array kQueuesAnswers = {
    AnswerDoc{200, "By name.", R"({"$ref":"#/components/schemas/EphemeralQueues"})"}};
constexpr std::array kDepthAnswers = {
    AnswerDoc{200, "Messages of the queue on this node.",
              R"({"$ref":"#/components/schemas/EphemeralDepth"})"},
    AnswerDoc{404, "No such queue.", R"({"$ref":"#/components/schemas/Error"})"}};

constexpr std::array kDocs = {
    RouteDoc{Method::post,
             "/api/v1/ephemeral/push",
             "ephemeralPush",
             "in-memory queues",
             "Push into an in-memory queue",
             {},
             R"({"$ref":"#/components/schemas/EphemeralPush"})",
             true,
             kPushAnswers,
             kLimited},
    RouteDoc{Method::get,
             "/api/v1/ephemeral/pop",
             "ephemeralPop",
             "in-memory queues",
             "Take messages of an in-memory queue",
             kPopQuery,
             "",
             false,
             kPopAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/ephemeral/ack",
             "ephemeralAck",
             "in-memory queues",
             "Settle messages of an in-memory queue",
             {},
             R"({"$ref":"#/components/schemas/EphemeralAcks"})",
             true,
             kAckAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/ephemeral/configure",
             "ephemeralConfigure",
             "in-memory queues",
             "Declare an in-memory queue",
             {},
             R"({"$ref":"#/components/schemas/EphemeralConfigure"})",
             true,
             kConfigureAnswers,
             kLimited},
    RouteDoc{Method::post,
             "/api/v1/ephemeral/reset",
             "ephemeralReset",
             "in-memory queues",
             "Drop all messages of an in-memory queue",
             {},
             R"({"$ref":"#/components/schemas/EphemeralQueue"})",
             true,
             kResetAnswers,
             {}},
    RouteDoc{Method::del,
             "/api/v1/ephemeral/queue/:queue",
             "ephemeralDelete",
             "in-memory queues",
             "Delete an in-memory queue and its declaration",
             {},
             "",
             false,
             kDeleteAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/ephemeral/queues",
             "ephemeralQueues",
             "in-memory queues",
             "List in-memory queues",
             {},
             "",
             false,
             kQueuesAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/ephemeral/queues/:queue/depth",
             "ephemeralDepth",
             "in-memory queues",
             "Show how much an in-memory queue holds",
             kDepthQuery,
             "",
             false,
             kDepthAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/ephemeral/_adopt",
             "ephemeralAdopt",
             "in-memory queues",
             "Between nodes of a cluster",
             {},
             "",
             false,
             {},
             {}},
    RouteDoc{Method::post,
             "/api/v1/ephemeral/_leaving",
             "ephemeralLeaving",
             "in-memory queues",
             "Between nodes of a cluster",
             {},
             "",
             false,
             {},
             {}},
    RouteDoc{Method::get,
             "/api/v1/ephemeral/_ready",
             "ephemeralReady",
             "in-memory queues",
             "Between nodes of a cluster",
             {},
             "",
             false,
             {},
             {}},
};

}  // namespace

std::span<const RouteDoc> ephemeral_docs() {
  return kDocs;
}

}  // namespace queen::api
