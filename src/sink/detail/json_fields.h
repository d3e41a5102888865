// Reads the fields of one JSON object that came from the KV or the bucket. Nothing throws; the first wrong
// field is remembered and everything after it reads as zero or empty: read all fields, then look once at
// status().
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace queen::sink::detail {

class JsonFields {
 public:
  // `what` names the document in errors.
  JsonFields(std::string what, simdjson::dom::element document) : what_(std::move(what)) {
    if (document.get(object_) != simdjson::SUCCESS) fail("is not a JSON object");
  }

  bool has(std::string_view field) const {
    return ok() && object_.at_key(field).error() == simdjson::SUCCESS;
  }
  std::string text(std::string_view field) {
    std::string_view value;
    if (!read(field, "text", value)) return {};
    return std::string(value);
  }
  std::uint64_t count(std::string_view field) {
    std::uint64_t value = 0;
    return read(field, "a whole number from 0", value) ? value : 0;
  }
  std::int64_t integer(std::string_view field) {
    std::int64_t value = 0;
    return read(field, "a whole number", value) ? value : 0;
  }
  std::optional<simdjson::dom::array> array(std::string_view field) {
    simdjson::dom::array value;
    if (!read(field, "a list", value)) return std::nullopt;
    return value;
  }
  // The field as it stands; nothing when it is absent.
  std::optional<simdjson::dom::element> raw(std::string_view field) const {
    simdjson::dom::element value;
    if (!ok() || object_.at_key(field).get(value) != simdjson::SUCCESS) return std::nullopt;
    return value;
  }

  void fail(std::string_view why) {
    if (failure_.empty()) failure_ = what_ + " " + std::string(why);
  }
  bool ok() const { return failure_.empty(); }
  Status status() const {
    if (ok()) return {};
    return Error{Errc::corrupt, failure_};
  }

 private:
  template <class T>
  bool read(std::string_view field, std::string_view wanted, T& value) {
    if (!ok()) return false;
    if (object_.at_key(field).get(value) == simdjson::SUCCESS) return true;
    fail("has no field " + std::string(field) + " that is " + std::string(wanted));
    return false;
  }

  std::string what_;
  std::string failure_;
  simdjson::dom::object object_;
};

// Parses `json` into `parser`, which must outlive the element. Errors: corrupt.
inline Result<simdjson::dom::element> parse_json(simdjson::dom::parser& parser, std::string_view json,
                                                 std::string_view what) {
  simdjson::dom::element document;
  const auto failure = parser.parse(json.data(), json.size()).get(document);
  if (failure != simdjson::SUCCESS)
    return Error{Errc::corrupt, std::string(what) + " is not JSON: " + simdjson::error_message(failure)};
  return document;
}

}  // namespace queen::sink::detail
