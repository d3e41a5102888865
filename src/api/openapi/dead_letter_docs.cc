// Dead letters and traces (api-messaging.md 11.3, 12, 13).
#include <array>

#include "api/openapi/route_doc.h"

namespace queen::api {
namespace {

using http::Method;

constexpr std::array kGrowing = {507};
constexpr QueryDoc kLimit{"limit", R"({"type":"integer","default":100})",
                          "Rows of the page, used within 1 and 1000."};
constexpr QueryDoc kOffset{"offset", R"({"type":"integer","default":0})", "Rows to skip."};
constexpr std::array kListQuery = {
    QueryDoc{"queue", R"({"type":"string"})", "Dead letters of this queue alone."},
    QueryDoc{"consumerGroup", R"({"type":"string"})", "Of this group alone."}, kLimit, kOffset};
constexpr std::array kListAnswers = {
    AnswerDoc{200, "The newest first.", R"({"$ref":"#/components/schemas/DeadLettersAnswer"})"}};
constexpr std::array kPurgeQuery = {
    QueryDoc{"queue", R"({"type":"string"})", "Dead letters of this queue.", true},
    QueryDoc{"consumerGroup", R"({"type":"string"})", "Of this group alone."}};
constexpr std::array kPurgeAnswers = {
    AnswerDoc{200, "How many went.", R"({"$ref":"#/components/schemas/DeadLettersPurged"})"},
    AnswerDoc{400, "No queue is named.", R"({"$ref":"#/components/schemas/Refusal"})"}};
constexpr std::array kReplayAnswers = {
    AnswerDoc{200, "The message stands at the end of the partition.",
              R"({"$ref":"#/components/schemas/ReplayAnswer"})"},
    AnswerDoc{400, "An override is refused.", R"({"$ref":"#/components/schemas/Refusal"})"},
    AnswerDoc{404, "No such dead letter.", R"({"$ref":"#/components/schemas/Refusal"})"},
    AnswerDoc{409, "The engine refused it.", R"({"$ref":"#/components/schemas/Refusal"})"}};
constexpr std::array kDeleteAnswers = {
    AnswerDoc{200, "How many went.", R"({"$ref":"#/components/schemas/MessageDeleted"})"},
    AnswerDoc{404, "No dead letter of that message.", R"({"$ref":"#/components/schemas/Refusal"})"}};
constexpr std::array kTraceAnswers = {
    AnswerDoc{201, "The event is stored.", R"({"$ref":"#/components/schemas/TraceStored"})"},
    AnswerDoc{400, "A field is refused.", R"({"$ref":"#/components/schemas/Refusal"})"},
    AnswerDoc{404, "No such partition.", R"({"$ref":"#/components/schemas/Refusal"})"}};
constexpr std::array kTracesQuery = {
    QueryDoc{"limit", R"({"type":"integer","default":200})", "Rows of the page, used within 1 and 1000."},
    kOffset};
constexpr std::array kNamesQuery = {kLimit, kOffset};
constexpr std::array kTracesAnswers = {
    AnswerDoc{200, "The newest first.", R"({"$ref":"#/components/schemas/TracesAnswer"})"}};
constexpr std::array kNamesAnswers = {
    AnswerDoc{200, "By name.", R"({"$ref":"#/components/schemas/TraceNamesAnswer"})"}};

constexpr std::array kDocs = {
    RouteDoc{Method::get,
             "/api/v1/dlq",
             "listDeadLetters",
             "dead letters",
             "List dead letters",
             kListQuery,
             "",
             false,
             kListAnswers,
             {}},
    RouteDoc{Method::del,
             "/api/v1/dlq",
             "purgeDeadLetters",
             "dead letters",
             "Delete a queue's dead letters",
             kPurgeQuery,
             "",
             false,
             kPurgeAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/dlq/:id/replay",
             "replayDeadLetter",
             "dead letters",
             "Put a dead letter back into a queue",
             {},
             R"({"$ref":"#/components/schemas/ReplayRequest"})",
             false,
             kReplayAnswers,
             kGrowing},
    RouteDoc{Method::post,
             "/api/v1/messages/:partitionId/:transactionId/retry",
             "retryMessage",
             "dead letters",
             "Put a dead letter back into a queue",
             {},
             R"({"$ref":"#/components/schemas/ReplayRequest"})",
             false,
             kReplayAnswers,
             kGrowing},
    RouteDoc{Method::del,
             "/api/v1/messages/:partitionId/:transactionId",
             "deleteMessage",
             "dead letters",
             "Delete the dead letters of a message",
             {},
             "",
             false,
             kDeleteAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/traces",
             "postTrace",
             "traces",
             "Store a trace event",
             {},
             R"({"$ref":"#/components/schemas/TraceRequest"})",
             true,
             kTraceAnswers,
             kGrowing},
    RouteDoc{Method::get,
             "/api/v1/traces/:partitionId/:transactionId",
             "tracesOfMessage",
             "traces",
             "Trace events of a message",
             kTracesQuery,
             "",
             false,
             kTracesAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/traces/by-name/:name",
             "tracesByName",
             "traces",
             "Trace events of a name",
             kTracesQuery,
             "",
             false,
             kTracesAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/traces/names",
             "traceNames",
             "traces",
             "Names of trace events",
             kNamesQuery,
             "",
             false,
             kNamesAnswers,
             {}},
};

}  // namespace

std::span<const RouteDoc> dead_letter_docs() {
  return kDocs;
}

}  // namespace queen::api
