// The key/value store (api-state.md 1).
#include <array>

#include "api/openapi/route_doc.h"

namespace queen::api {
namespace {

using http::Method;

constexpr std::array kGrowing = {507};
constexpr std::array kKvAnswers = {
    AnswerDoc{200, "One result for each operation, or the precondition that was lost.",
              R"({"$ref":"#/components/schemas/KvAnswer"})"},
    AnswerDoc{400, "An operation is refused.", R"({"$ref":"#/components/schemas/KvRefusal"})"},
    AnswerDoc{403, "The tenant may not, or its allowance is used up.",
              R"({"$ref":"#/components/schemas/KvRefusal"})"},
    AnswerDoc{413, "A key or a value is too large.", R"({"$ref":"#/components/schemas/KvRefusal"})"},
    AnswerDoc{429, "The tenant's rate, or the broker's.", R"({"$ref":"#/components/schemas/KvRefusal"})"},
    AnswerDoc{503, "Not served, or paused by an operator; a write may have taken effect. See Retry-After.",
              R"({"$ref":"#/components/schemas/KvRefusal"})"}};

constexpr std::array kDocs = {
    RouteDoc{Method::post,
             "/api/v1/kv",
             "kv",
             "state",
             "Read and write keys, all or nothing",
             {},
             R"({"$ref":"#/components/schemas/KvRequest"})",
             true,
             kKvAnswers,
             kGrowing},
};

}  // namespace

std::span<const RouteDoc> state_docs() {
  return kDocs;
}

}  // namespace queen::api
