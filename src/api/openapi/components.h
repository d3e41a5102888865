// The schemas and error answers that the OpenAPI document shares: the text of components.json beside this
// file.
#pragma once

#include <string>

namespace queen::api {

const std::string& openapi_components();  // a JSON object

}  // namespace queen::api
