// The OpenAPI 3.1 document of the API, made from the route table (https://spec.openapis.org/oas/v3.1.0).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/detail/context.h"
#include "api/openapi/route_doc.h"

namespace queen::api {

// The document of `route`, or null.
const RouteDoc* find_doc(const Route& route);
// Every document there is, of all resources.
std::vector<const RouteDoc*> all_docs();

// The whole document as JSON. Every route must have a document.
std::string openapi_document(std::span<const Route> routes, std::string_view version);

}  // namespace queen::api
