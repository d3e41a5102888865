// A strict reader of JSON text (RFC 8259), one pass, no copies: what it accepts is JSON, and what it hands
// out are slices of the input, so that a payload stays the producer's own text byte for byte. It is the only
// judge of a request body in this room: a second parser beside it would sooner or later disagree with it.
// Lone surrogate escapes are accepted; the caller checks beforehand that the text is UTF-8 (is_utf8_fast).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace queen::api {

// Deepest nesting of one value. A payload may have it whole: the levels of the request around it do not
// count.
inline constexpr std::uint32_t kNestingMax = 1024;

enum class JsonKind : std::uint8_t { null, boolean, number, string, array, object };

// One value, borrowed from the text that was scanned. Known to be well formed.
struct JsonValue {
  JsonKind kind = JsonKind::null;
  bool escaped = false;   // a string with at least one backslash
  std::string_view text;  // as sent, without the blanks around it; strings with their quotes

  bool is_null() const { return kind == JsonKind::null; }
  bool is_true() const { return text == "true"; }
  // A string's characters when it has no escapes.
  std::string_view bare() const { return text.substr(1, text.size() - 2); }
};

// Reads values one after the other. After the first fault every call gives false and ok() is false.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  // Reads one whole value, whatever is inside it.
  bool value(JsonValue& out);
  // Steps into the object or array that comes next; a fault when something else comes.
  bool enter_object() { return enter('{'); }
  bool enter_array() { return enter('['); }
  // Of the container entered last: moves to the next field's value, or the next element; false at the closing
  // bracket, which is consumed.
  bool next_field(JsonValue& key);
  bool next_element();
  // True when nothing but blanks is left.
  bool done();
  bool ok() const { return ok_; }

 private:
  bool enter(char bracket);
  bool next(char closing);
  void skip_blanks();
  bool fail() {
    ok_ = false;
    return false;
  }

  const char* at_;
  const char* end_;
  bool first_ = true;  // nothing of the container entered last was read yet
  bool ok_ = true;
};

// True when `text` is exactly one JSON value. UTF-8 is not judged here.
bool is_json(std::string_view text);
// RFC 3629, with SIMD.
bool is_utf8_fast(std::string_view text);

// What to do with an escaped surrogate that has no partner: it has no UTF-8 form.
enum class LoneSurrogate : bool { refuse, replace };
// The characters of a string value. Nothing when it is no string, or for a refused lone surrogate.
std::optional<std::string> string_of(const JsonValue& value, LoneSurrogate lone = LoneSurrogate::refuse);
// The same as a view: into the text scanned, or into a string added to `arena` when there are escapes.
std::optional<std::string_view> view_of(const JsonValue& value, std::deque<std::string>& arena);

// An integer written as one: no fraction, no exponent, within 64 bits.
std::optional<std::int64_t> integer_of(const JsonValue& value);
// The same, also for integral values written otherwise (`30.0`, `3e1`).
std::optional<std::int64_t> integral_of(const JsonValue& value);

// The fields of one object by name; of fields with the same name the last one counts.
class JsonFields {
 public:
  // Nothing when `value` is no object or a name has a lone surrogate.
  static std::optional<JsonFields> of(const JsonValue& value);
  // Null when there is no such field.
  const JsonValue* find(std::string_view name) const;
  // The same, but a field that holds null counts as absent.
  const JsonValue* find_set(std::string_view name) const;
  // Of all fields, decoded; borrowed from this and from the text.
  std::vector<std::string_view> names() const;

 private:
  struct Field {
    std::string_view name;
    JsonValue value;
  };
  std::vector<Field> fields_;
  std::deque<std::string> arena_;
};

// The elements of an array value; nothing when it is no array.
std::optional<std::vector<JsonValue>> elements_of(const JsonValue& value);

// Bytes of the value without insignificant blanks.
std::size_t compact_bytes(std::string_view json);

}  // namespace queen::api
