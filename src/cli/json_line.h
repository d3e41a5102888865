// JSON objects put together field by field, for output that programs read line by line.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/ids.h"
#include "base/text.h"

namespace queen::cli {

// Bytes as a JSON string; those that are no UTF-8 as {"hex":"…"}.
std::string json_bytes(std::string_view bytes);

class JsonObject {
 public:
  // `json` is JSON already.
  JsonObject& raw(std::string_view name, std::string_view json) {
    text_ += text_.size() > 1 ? "," : "";
    append_json_string(text_, name);
    text_ += ':';
    text_ += json;
    return *this;
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  JsonObject& add(std::string_view name, T value) {
    return raw(name, fmt::format("{}", value));
  }
  JsonObject& add(std::string_view name, std::string_view value) { return raw(name, json_bytes(value)); }
  JsonObject& add(std::string_view name, const char* value) { return add(name, std::string_view(value)); }
  JsonObject& add(std::string_view name, const std::string& value) {
    return add(name, std::string_view(value));
  }
  JsonObject& add(std::string_view name, const Uuid& value) { return raw(name, json_string(value.str())); }
  // null when there is none.
  template <class T>
  JsonObject& add(std::string_view name, const std::optional<T>& value) {
    return value ? add(name, *value) : raw(name, "null");
  }
  std::string str() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

}  // namespace queen::cli
