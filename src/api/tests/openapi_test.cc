// The OpenAPI document: complete, sound, and of the same routes that are served.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <regex>
#include <set>
#include <string>

#include "api/openapi/document.h"

namespace queen::api {
namespace {

using simdjson::dom::element;

struct Document {
  simdjson::dom::parser parser;
  simdjson::padded_string text{openapi_document(api_routes(), "1.2.3")};
  element root = parser.parse(text);
};

std::string path_of(std::string_view pattern) {
  return std::regex_replace(std::string(pattern), std::regex("[:*]([A-Za-z]+)"), "{$1}");
}

TEST(OpenApi, HasEveryRouteOfTheTable) {
  Document document;
  for (const Route& route : api_routes()) {
    const RouteDoc* doc = find_doc(route);
    ASSERT_NE(doc, nullptr) << route.pattern;
    element path;
    ASSERT_EQ(document.root["paths"].at_key(path_of(route.pattern)).get(path), simdjson::SUCCESS)
        << route.pattern;
    bool found = false;
    for (const auto [method, operation] : simdjson::dom::object(path))
      found = found || std::string_view(operation["operationId"]) == doc->id;
    EXPECT_TRUE(found) << doc->id;
  }
}

TEST(OpenApi, DescribesNoRouteThatIsNotServed) {
  std::set<std::pair<http::Method, std::string_view>> served;
  for (const Route& route : api_routes()) served.insert({route.method, route.pattern});
  for (const RouteDoc* doc : all_docs()) EXPECT_TRUE(served.contains({doc->method, doc->pattern})) << doc->id;
}

TEST(OpenApi, NamesEachOperationOnce) {
  std::set<std::string_view> ids;
  for (const RouteDoc* doc : all_docs()) EXPECT_TRUE(ids.insert(doc->id).second) << doc->id;
}

TEST(OpenApi, ResolvesEveryReferenceAndUsesEverySchema) {
  Document document;
  const std::string text(document.text);
  std::set<std::string> used;
  const std::regex reference(R"re("\$ref": ?"#/components/(schemas|responses)/([A-Za-z0-9]+)")re");
  for (std::sregex_iterator at(text.begin(), text.end(), reference), end; at != end; ++at) {
    used.insert((*at)[2]);
    element found;
    EXPECT_EQ(document.root["components"][(*at)[1].str()].at_key((*at)[2].str()).get(found),
              simdjson::SUCCESS)
        << (*at)[2];
  }
  for (const auto [name, schema] : simdjson::dom::object(document.root["components"]["schemas"]))
    EXPECT_TRUE(used.contains(std::string(name))) << name;
}

TEST(OpenApi, SaysTheAccessLevelAndTheVersion) {
  Document document;
  EXPECT_EQ(std::string_view(document.root["info"]["version"]), "1.2.3");
  EXPECT_EQ(std::string_view(document.root["paths"]["/api/v1/push"]["post"]["x-queen-access"]), "write-only");
  EXPECT_EQ(std::string_view(
                document.root["paths"]["/api/v1/resources/queues/{queue}"]["delete"]["x-queen-access"]),
            "admin");
}

}  // namespace
}  // namespace queen::api
