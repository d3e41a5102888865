// The schemas and error answers that the OpenAPI document shares: the text of components.json beside this
// file.
#pragma once

#include <string_view>

namespace queen::api {

extern const std::string_view kOpenApiComponents;  // a JSON object

}  // namespace queen::api
