// Push, pop, ack, leases, transactions (api-messaging.md 3 to 7).
#include <array>

#include "api/openapi/route_doc.h"

namespace queen::api {
namespace {

using http::Method;

constexpr std::array kGrowing = {429, 507};

#define QUEEN_POP_QUERY                                                                                   \
  QueryDoc{"batch", R"({"type":"integer","default":200})",                                                \
           "Messages of the whole answer, over all partitions; values below 1 act as 1."},                \
      QueryDoc{"wait", R"({"type":"boolean","default":false})", "Long poll: hold the request."},          \
      QueryDoc{"timeout", R"({"type":"integer","default":30000})",                                        \
               "Milliseconds, used within 1 and 60000; the deadline of the request."},                    \
      QueryDoc{"consumerGroup", R"({"type":"string"})", "Absent or empty: the queue's own mode."},        \
      QueryDoc{"leaseSeconds", R"({"type":"integer","default":0})",                                       \
               "Length of the lease; 0: the queue's leaseTime."},                                         \
      QueryDoc{"commitOnDelivery", R"({"type":"boolean","default":false})",                               \
               "No lease: the cursor moves when the messages are handed out."},                           \
      QueryDoc{"autoAck", R"({"type":"boolean","default":false})", "Older name of commitOnDelivery."},    \
      QueryDoc{"subscriptionMode", R"({"type":"string"})",                                                \
               "Where a group starts that is new here: new, or all."},                                    \
      QueryDoc{"subscriptionFrom", R"({"type":"string"})", "now or an ISO instant; wins over the mode."}, \
      QueryDoc{"conflation", R"({"type":"boolean"})", "Deliver the newest message of each partition alone."}
constexpr std::array kPinnedQuery = {QUEEN_POP_QUERY};
constexpr std::array kDiscoveryQuery = {
    QUEEN_POP_QUERY,
    QueryDoc{"namespace", R"({"type":"string"})", "Label that the queues must have; this or task is needed."},
    QueryDoc{"task", R"({"type":"string"})", "Label that the queues must have; this or namespace is needed."},
    QueryDoc{"partitions", R"({"type":"integer","default":1})", "Partitions to claim at most, 1 to 64."}};
constexpr std::array kQueueQuery = {
    QUEEN_POP_QUERY,
    QueryDoc{"partitions", R"({"type":"integer","default":1})", "Partitions to claim at most, 1 to 64."},
    QueryDoc{"autopilot", R"({"type":"boolean","default":false})",
             "The broker picks batch and partitions, whichever is not sent."}};
#undef QUEEN_POP_QUERY

constexpr std::array kPopAnswers = {
    AnswerDoc{200, "Messages, under one lease.", R"({"$ref":"#/components/schemas/PopAnswer"})"},
    AnswerDoc{204, "Nothing is available.", ""},
    AnswerDoc{400, "A parameter is refused.", R"({"$ref":"#/components/schemas/PopRefusal"})"}};
constexpr std::array kPushAnswers = {
    AnswerDoc{201, "One result for each item, in their order.",
              R"({"type":"array","items":{"$ref":"#/components/schemas/PushResult"}})"}};
constexpr std::array kAckAnswers = {
    AnswerDoc{200, "One result for each acknowledgment, in their order.",
              R"({"type":"array","items":{"$ref":"#/components/schemas/AckResult"}})"}};
constexpr std::array kExtendAnswers = {AnswerDoc{200, "How many leases were extended, and until when.",
                                                 R"({"$ref":"#/components/schemas/ExtendAnswer"})"}};
constexpr std::array kTransactionAnswers = {
    AnswerDoc{200, "Committed, or rolled back for the reason that is named.",
              R"({"$ref":"#/components/schemas/TransactionAnswer"})"},
    AnswerDoc{400, "The body is refused.", R"({"anyOf":[{"$ref":"#/components/schemas/TransactionAnswer"},
{"$ref":"#/components/schemas/Error"}]})"},
    AnswerDoc{
        413, "A name, a key or a value is too large.",
        R"({"anyOf":[{"$ref":"#/components/schemas/TransactionAnswer"},{"$ref":"#/components/schemas/Error"}]})"}};

constexpr std::array kDocs = {
    RouteDoc{Method::post,
             "/api/v1/push",
             "push",
             "messages",
             "Store messages",
             {},
             R"({"$ref":"#/components/schemas/PushRequest"})",
             true,
             kPushAnswers,
             kGrowing},
    RouteDoc{Method::get,
             "/api/v1/pop/queue/:queue",
             "popQueue",
             "messages",
             "Claim messages from any ready partitions of a queue",
             kQueueQuery,
             "",
             false,
             kPopAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/pop/queue/:queue/partition/:partition",
             "popPartition",
             "messages",
             "Claim messages of one partition",
             kPinnedQuery,
             "",
             false,
             kPopAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/pop",
             "popDiscovery",
             "messages",
             "Claim messages from all queues that have the labels",
             kDiscoveryQuery,
             "",
             false,
             kPopAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/ack",
             "ack",
             "messages",
             "Acknowledge messages",
             {},
             R"({"$ref":"#/components/schemas/AckRequest"})",
             true,
             kAckAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/ack/batch",
             "ackBatch",
             "messages",
             "Acknowledge messages",
             {},
             R"({"$ref":"#/components/schemas/AckRequest"})",
             true,
             kAckAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/lease/:leaseId/extend",
             "extendLease",
             "messages",
             "Extend every live lease of a pop",
             {},
             R"({"$ref":"#/components/schemas/ExtendRequest"})",
             false,
             kExtendAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/transaction",
             "transaction",
             "messages",
             "Acknowledge, push, set positions and write keys: all or nothing",
             {},
             R"({"$ref":"#/components/schemas/TransactionRequest"})",
             true,
             kTransactionAnswers,
             kGrowing},
};

}  // namespace

std::span<const RouteDoc> message_docs() {
  return kDocs;
}

}  // namespace queen::api
