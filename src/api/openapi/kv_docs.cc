// Single keys by their paths, the console's view of the key/value store, locks (api-state.md 1 and 2).
#include <array>

#include "api/openapi/route_doc.h"

namespace queen::api {
namespace {

using http::Method;

constexpr std::string_view kRefusal = R"({"$ref":"#/components/schemas/KvRefusal"})";
constexpr std::array kGrowing = {507};

// `Element` and what every route of the store may be refused with.
constexpr std::array<AnswerDoc, 6> answers(std::string_view text, std::string_view schema) {
  return {AnswerDoc{200, text, schema},
          AnswerDoc{400, "The request is refused.", kRefusal},
          AnswerDoc{403, "The tenant may not do this.", kRefusal},
          AnswerDoc{413, "A key or a value is too large.", kRefusal},
          AnswerDoc{500, "A fault of the broker.", kRefusal},
          AnswerDoc{503, "Not served; a write may have taken effect. See Retry-After.", kRefusal}};
}
constexpr auto kGetAnswers = answers("The row, with its version as ETag, or that there is none.",
                                     R"({"$ref":"#/components/schemas/KvRead"})");
constexpr auto kWriteAnswers =
    answers("The result, or the precondition that was lost.", R"({"$ref":"#/components/schemas/KvWritten"})");
constexpr auto kNamespacesAnswers = answers("Namespaces in byte order, with the rows stored in each.",
                                            R"({"$ref":"#/components/schemas/KvNamespaces"})");
constexpr auto kListAnswers =
    answers("A page of rows in byte order of their keys.", R"({"$ref":"#/components/schemas/KvList"})");
constexpr auto kLocksAnswers =
    answers("One result for each operation.", R"({"$ref":"#/components/schemas/LocksAnswer"})");

constexpr std::array kDocs = {
    RouteDoc{
        Method::get, "/api/v1/kv/:ns/*key", "kvGet", "state", "Read a key", {}, "", false, kGetAnswers, {}},
    RouteDoc{Method::put,
             "/api/v1/kv/:ns/*key",
             "kvPut",
             "state",
             "Write a key",
             {},
             R"({"$ref":"#/components/schemas/KvPut"})",
             true,
             kWriteAnswers,
             kGrowing},
    RouteDoc{Method::del,
             "/api/v1/kv/:ns/*key",
             "kvDelete",
             "state",
             "Delete a key",
             {},
             R"({"$ref":"#/components/schemas/KvDelete"})",
             false,
             kWriteAnswers,
             {}},
    RouteDoc{Method::get,
             "/api/v1/resources/kv/namespaces",
             "kvNamespaces",
             "state",
             "Namespaces of keys",
             {},
             "",
             false,
             kNamespacesAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/resources/kv/list",
             "kvList",
             "state",
             "Page through the keys of a namespace",
             {},
             R"({"$ref":"#/components/schemas/KvListRequest"})",
             true,
             kListAnswers,
             {}},
    RouteDoc{Method::post,
             "/api/v1/locks",
             "locks",
             "state",
             "Acquire, renew, release and look at locks and semaphores",
             {},
             R"({"$ref":"#/components/schemas/LocksRequest"})",
             true,
             kLocksAnswers,
             kGrowing},
};

}  // namespace

std::span<const RouteDoc> kv_docs() {
  return kDocs;
}

}  // namespace queen::api
