// Streams (api-state.md 5).
#include <array>

#include "api/openapi/route_doc.h"

namespace queen::api {
namespace {

using http::Method;

constexpr std::array kGrowing = {507};
constexpr std::array kQueryAnswers = {
    AnswerDoc{200, "The query is there, new or known.", R"({"$ref":"#/components/schemas/StreamsQuery"})"},
    AnswerDoc{403, "The tenant may have no more queries.",
              R"({"$ref":"#/components/schemas/StreamsRefusal"})"},
    AnswerDoc{409, "The name is known with another config_hash.",
              R"({"$ref":"#/components/schemas/StreamsRefusal"})"}};
constexpr std::array kStateAnswers = {
    AnswerDoc{200, "The rows that match, by key.", R"({"$ref":"#/components/schemas/StreamsState"})"},
    AnswerDoc{404, "No such query or partition.", R"({"$ref":"#/components/schemas/StreamsRefusal"})"}};
constexpr std::array kCycleAnswers = {
    AnswerDoc{200, "What was committed, or why nothing was.",
              R"({"anyOf":[{"$ref":"#/components/schemas/StreamsCycle"},)"
              R"({"$ref":"#/components/schemas/StreamsRefusal"}]})"},
    AnswerDoc{404, "No such query or partition.", R"({"$ref":"#/components/schemas/StreamsRefusal"})"}};

constexpr std::array kDocs = {
    RouteDoc{Method::post,
             "/streams/v1/queries",
             "registerStreamsQuery",
             "streams",
             "Register a query, or find it by its name",
             {},
             R"({"$ref":"#/components/schemas/StreamsQueryRequest"})",
             true,
             kQueryAnswers,
             kGrowing},
    RouteDoc{Method::post,
             "/streams/v1/state/get",
             "getStreamsState",
             "streams",
             "Read a query's state of one partition (linearizable)",
             {},
             R"({"$ref":"#/components/schemas/StreamsStateRequest"})",
             true,
             kStateAnswers,
             {}},
    RouteDoc{Method::post,
             "/streams/v1/cycle",
             "commitStreamsCycle",
             "streams",
             "Commit state, sink pushes and the ack of the source, all or nothing",
             {},
             R"({"$ref":"#/components/schemas/StreamsCycleRequest"})",
             true,
             kCycleAnswers,
             kGrowing},
};

}  // namespace

std::span<const RouteDoc> streams_docs() {
  return kDocs;
}

}  // namespace queen::api
