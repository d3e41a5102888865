// Typed query parameters. One that does not parse fails the request with a plain text 400.
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "http/server.h"

namespace queen::api {

class Query {
 public:
  using Lookup = std::function<std::optional<std::string>(std::string_view name)>;  // decoded; first one wins
  explicit Query(Lookup lookup) : lookup_(std::move(lookup)) {}

  std::optional<std::string> text(std::string_view name) const { return lookup_(name); }
  // The same, with an empty value counted as absent.
  std::optional<std::string> filled(std::string_view name) const {
    auto value = lookup_(name);
    if (value && value->empty()) return std::nullopt;
    return value;
  }

  std::optional<std::int64_t> integer(std::string_view name) {
    const auto value = lookup_(name);
    if (!value) return std::nullopt;
    std::int64_t out = 0;
    const char* end = value->data() + value->size();
    const auto parsed = std::from_chars(value->data(), end, out);
    if (parsed.ec == std::errc{} && parsed.ptr == end) return out;
    return fail(name, "an integer");
  }

  std::optional<bool> boolean(std::string_view name) {
    const auto value = lookup_(name);
    if (!value) return std::nullopt;
    const std::string word = lower_ascii(*value);
    if (word == "true" || word == "1") return true;
    if (word == "false" || word == "0") return false;
    return fail(name, "true or false");
  }

  // A value that the caller cannot use: the first such fault stays.
  std::nullopt_t fail(std::string_view name, std::string_view wanted) {
    if (fault_.empty()) fault_ = std::string(name) + " must be " + std::string(wanted);
    return std::nullopt;
  }
  // What did not parse first; empty when everything did.
  const std::string& fault() const { return fault_; }

 private:
  Lookup lookup_;
  std::string fault_;
};

inline http::Response query_fault_response(const std::string& fault) {
  http::Response response;
  response.status = 400;
  response.content_type = "text/plain";
  response.body = "invalid query: " + fault;
  return response;
}

}  // namespace queen::api
