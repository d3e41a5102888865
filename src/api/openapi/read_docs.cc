// Reads by offset and of single messages (api-messaging.md 8, 11).
#include <array>

#include "api/openapi/route_doc.h"

namespace queen::api {
namespace {

using http::Method;

constexpr std::array kFetchAnswers = {
    AnswerDoc{200, "One answer for each entry, in their order.",
              R"({"$ref":"#/components/schemas/FetchAnswer"})"},
    AnswerDoc{400, "The body is refused.", R"({"$ref":"#/components/schemas/Refusal"})"}};
constexpr std::array kOffsetsAnswers = {
    AnswerDoc{200, "One answer for each entry, in their order.",
              R"({"$ref":"#/components/schemas/OffsetsAnswer"})"},
    AnswerDoc{400, "The body is refused.", R"({"$ref":"#/components/schemas/Refusal"})"}};
constexpr std::array kChangedAnswers = {
    AnswerDoc{200, "A page of partitions for each entry.",
              R"({"$ref":"#/components/schemas/ChangedAnswer"})"},
    AnswerDoc{400, "The body is refused.", R"({"$ref":"#/components/schemas/Refusal"})"}};
constexpr std::array kMessagesQuery = {
    QueryDoc{"queue", R"({"type":"string"})", "Messages of this queue alone."},
    QueryDoc{"partition", R"({"type":"string"})", "Messages of partitions of this name alone."},
    QueryDoc{"namespace", R"({"type":"string"})", "Messages of queues with this label alone."},
    QueryDoc{"task", R"({"type":"string"})", "Messages of queues with this label alone."},
    QueryDoc{"status", R"({"type":"string","enum":["pending","processing","completed","dead_letter"]})",
             "Messages of this status alone."},
    QueryDoc{"from", R"({"type":"string","format":"date-time"})", "Inclusive; an hour ago when absent."},
    QueryDoc{"to", R"({"type":"string","format":"date-time"})",
             "Its whole minute is included; now when absent."},
    QueryDoc{"limit", R"({"type":"integer","default":200})", "Rows of the page, used within 1 and 1000."},
    QueryDoc{"offset", R"({"type":"integer","default":0})", "Rows to skip."}};
constexpr std::array kMessagesAnswers = {
    AnswerDoc{200, "The newest messages first.", R"({"$ref":"#/components/schemas/MessagesAnswer"})"}};
constexpr std::array kMessageAnswers = {
    AnswerDoc{200, "The message.", R"({"$ref":"#/components/schemas/MessageDetail"})"},
    AnswerDoc{404, "No such message.", R"({"$ref":"#/components/schemas/Refusal"})"}};

constexpr std::array kDocs = {
    RouteDoc{Method::post,
             "/api/v1/fetch",
             "fetch",
             "reads",
             "Read records by offset",
             {},
             R"({"$ref":"#/components/schemas/FetchRequest"})",
             true,
             kFetchAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/fetch/offsets",
             "fetchOffsets",
             "reads",
             "Find offsets by time",
             {},
             R"({"$ref":"#/components/schemas/OffsetsRequest"})",
             true,
             kOffsetsAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/partitions/changed",
             "partitionsChanged",
             "reads",
             "List partitions written since an instant",
             {},
             R"({"$ref":"#/components/schemas/ChangedRequest"})",
             true,
             kChangedAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/messages",
             "listMessages",
             "reads",
             "Browse messages",
             kMessagesQuery,
             "",
             false,
             kMessagesAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/messages/:partitionId/:transactionId",
             "getMessage",
             "reads",
             "One message with its state in every group",
             {},
             "",
             false,
             kMessageAnswers,
             {}},
};

}  // namespace

std::span<const RouteDoc> read_docs() {
  return kDocs;
}

}  // namespace queen::api
