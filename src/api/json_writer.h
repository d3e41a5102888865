// JSON out: appends members to one string, with the commas in the right places. Field names are ours and need
// no escaping; raw text must be JSON already.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/ids.h"
#include "base/text.h"

namespace queen::api {

// append_json_string, quick for the usual text that needs no escapes.
void append_json_text(std::string& out, std::string_view text);

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& open(char bracket) {
    comma();
    out_ += bracket;
    fresh_ = true;
    return *this;
  }
  JsonWriter& close(char bracket) {
    out_ += bracket;
    fresh_ = false;
    return *this;
  }
  // The next value belongs to field `name`.
  JsonWriter& name(std::string_view name) {
    comma();
    out_ += '"';
    out_ += name;
    out_ += "\":";
    fresh_ = true;
    return *this;
  }
  // The same for a name that is not ours.
  JsonWriter& key(std::string_view name) {
    text(name);
    out_ += ':';
    fresh_ = true;
    return *this;
  }
  JsonWriter& raw(std::string_view json) {
    comma();
    out_ += json;
    return *this;
  }
  JsonWriter& text(std::string_view text) {
    comma();
    append_json_text(out_, text);
    return *this;
  }
  template <class T>
  JsonWriter& number(T value) {
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>);
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    return raw({digits, static_cast<std::size_t>(end - digits)});
  }
  JsonWriter& boolean(bool value) { return raw(value ? "true" : "false"); }
  JsonWriter& null() { return raw("null"); }
  JsonWriter& uuid(const Uuid& id) {
    comma();
    out_ += '"';
    id.append_to(out_);
    out_ += '"';
    return *this;
  }
  // `2031-04-05T06:07:08.000123Z`
  JsonWriter& instant(std::int64_t us) {
    comma();
    out_ += '"';
    append_iso_micros(out_, us);
    out_ += '"';
    return *this;
  }
  // `2031-04-05T06:07:08.000Z`: what is below a millisecond is cut off.
  JsonWriter& instant_ms(std::int64_t us) {
    instant(us);
    out_.replace(out_.size() - 5, 3, "");
    return *this;
  }
  // `2031-04-05T06:07:08Z`: what is below a second is cut off.
  JsonWriter& instant_s(std::int64_t us) {
    instant(us);
    out_.erase(out_.size() - 9, 7);
    return *this;
  }
  // Rounded to two places, without zeros at its end.
  JsonWriter& decimal(double value);
  // A number as a string of decimal digits.
  JsonWriter& digits(std::uint64_t value) {
    comma();
    out_ += '"';
    fresh_ = true;
    number(value);
    out_ += '"';
    return *this;
  }

 private:
  void comma() {
    if (!fresh_) out_ += ',';
    fresh_ = false;
  }
  std::string& out_;
  bool fresh_ = true;
};

}  // namespace queen::api
