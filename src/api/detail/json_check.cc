#include "api/detail/json_check.h"

#include <simdjson.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "api/json_writer.h"

namespace queen::api {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// First byte at or after `at` that ends a plain run inside a string: a quote, a backslash, a control
// character.
const char* plain_run_end(const char* at, const char* end) {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i control = _mm_set1_epi8(0x1F);
  while (end - at >= 16) {
    const __m128i chunk = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i low = _mm_cmpeq_epi8(_mm_max_epu8(chunk, control), control);
    const __m128i hit =
        _mm_or_si128(low, _mm_or_si128(_mm_cmpeq_epi8(chunk, quote), _mm_cmpeq_epi8(chunk, backslash)));
    const int mask = _mm_movemask_epi8(hit);
    if (mask != 0) return at + __builtin_ctz(static_cast<unsigned>(mask));
    at += 16;
  }
#endif
  while (at < end && *at != '"' && *at != '\\' && static_cast<unsigned char>(*at) >= 0x20) ++at;
  return at;
}

// Walks over one value. Every step gives the place after what it read, or null at a fault or the end of the
// text.
class Walker {
 public:
  explicit Walker(const char* end) : end_(end) {}

  const char* blanks(const char* at) const {
    while (at < end_ && is_blank(*at)) ++at;
    return at;
  }

  // `at` stands after the opening quote; the result after the closing one.
  const char* string_rest(const char* at, bool& escaped) const {
    for (;;) {
      at = plain_run_end(at, end_);
      if (at == end_ || static_cast<unsigned char>(*at) < 0x20) return nullptr;
      if (*at == '"') return at + 1;
      escaped = true;
      at = escape(at + 1);
      if (at == nullptr) return nullptr;
    }
  }

  // One value from its first character; blanks before it are the caller's.
  const char* value(const char* at) {
    depth_ = 0;
    at = begin_value(at);
    while (at != nullptr && depth_ > 0) at = after_value(at);
    return at;
  }

 private:
  const char* escape(const char* at) const {
    if (at == end_) return nullptr;
    if (*at == 'u') {
      if (end_ - at < 5) return nullptr;
      for (int i = 1; i <= 4; ++i)
        if (hex_value(at[i]) < 0) return nullptr;
      return at + 5;
    }
    constexpr std::string_view kSimple = "\"\\/bfnrt";
    return kSimple.find(*at) == std::string_view::npos ? nullptr : at + 1;
  }

  const char* digits(const char* at) const {
    const char* from = at;
    while (at < end_ && is_digit(*at)) ++at;
    return at == from ? nullptr : at;
  }

  const char* number(const char* at) const {
    if (*at == '-') ++at;
    if (at == end_) return nullptr;
    at = *at == '0' ? at + 1 : digits(at);
    if (at != nullptr && at < end_ && *at == '.') at = digits(at + 1);
    if (at == nullptr || at == end_ || (*at != 'e' && *at != 'E')) return at;
    ++at;
    if (at < end_ && (*at == '+' || *at == '-')) ++at;
    return digits(at);
  }

  const char* literal(const char* at, std::string_view word) const {
    if (static_cast<std::size_t>(end_ - at) < word.size()) return nullptr;
    return std::memcmp(at, word.data(), word.size()) == 0 ? at + word.size() : nullptr;
  }

  // A field's name and colon, up to its value.
  const char* name(const char* at) const {
    at = blanks(at);
    if (at == end_ || *at != '"') return nullptr;
    bool escaped = false;
    at = string_rest(at + 1, escaped);
    if (at == nullptr) return nullptr;
    at = blanks(at);
    return at < end_ && *at == ':' ? blanks(at + 1) : nullptr;
  }

  // A scalar whole, or a container up to the first value inside it (which it begins), or an empty container
  // whole.
  const char* begin_value(const char* at) {
    while (at != nullptr && at < end_) {
      if (*at != '{' && *at != '[') return scalar(at);
      const bool object = *at == '{';
      if (!push(object)) return nullptr;
      at = blanks(at + 1);
      if (at < end_ && *at == (object ? '}' : ']')) {
        --depth_;
        return at + 1;
      }
      if (object) at = name(at);
    }
    return nullptr;
  }

  const char* scalar(const char* at) const {
    bool escaped = false;
    switch (*at) {
      case '"':
        return string_rest(at + 1, escaped);
      case 't':
        return literal(at, "true");
      case 'f':
        return literal(at, "false");
      case 'n':
        return literal(at, "null");
      default:
        return *at == '-' || is_digit(*at) ? number(at) : nullptr;
    }
  }

  // Inside a container after one of its values: the next one, or the closing bracket.
  const char* after_value(const char* at) {
    at = blanks(at);
    if (at == end_) return nullptr;
    const bool object = in_object();
    if (*at == ',') return begin_value(object ? name(at + 1) : blanks(at + 1));
    if (*at != (object ? '}' : ']')) return nullptr;
    --depth_;
    return at + 1;
  }

  bool push(bool object) {
    if (depth_ == kNestingMax) return false;
    const std::uint64_t bit = std::uint64_t{1} << (depth_ % 64);
    auto& word = objects_[depth_ / 64];
    word = object ? word | bit : word & ~bit;
    ++depth_;
    return true;
  }
  bool in_object() const { return (objects_[(depth_ - 1) / 64] >> ((depth_ - 1) % 64) & 1) != 0; }

  const char* end_;
  std::uint32_t depth_ = 0;
  std::array<std::uint64_t, kNestingMax / 64> objects_;  // bit set: that level is an object
};

JsonKind kind_of(char first) {
  switch (first) {
    case '"':
      return JsonKind::string;
    case '{':
      return JsonKind::object;
    case '[':
      return JsonKind::array;
    case 'n':
      return JsonKind::null;
    case 't':
    case 'f':
      return JsonKind::boolean;
    default:
      return JsonKind::number;
  }
}

void append_utf8(std::string& out, std::uint32_t point) {
  if (point < 0x80) {
    out.push_back(static_cast<char>(point));
  } else if (point < 0x800) {
    out.push_back(static_cast<char>(0xC0 | point >> 6));
    out.push_back(static_cast<char>(0x80 | (point & 0x3F)));
  } else if (point < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | point >> 12));
    out.push_back(static_cast<char>(0x80 | (point >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (point & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | point >> 18));
    out.push_back(static_cast<char>(0x80 | (point >> 12 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (point >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (point & 0x3F)));
  }
}

// Four hex digits; the caller knows that they are there.
std::uint32_t unit_at(std::string_view text, std::size_t at) {
  std::uint32_t unit = 0;
  for (std::size_t i = 0; i < 4; ++i) unit = unit << 4 | static_cast<std::uint32_t>(hex_value(text[at + i]));
  return unit;
}

// `at` stands on the first hex digit after `\u` and is moved past the escape, or past both of a pair.
// Nothing for a surrogate without its partner.
std::optional<std::uint32_t> code_point(std::string_view text, std::size_t& at) {
  const std::uint32_t unit = unit_at(text, at);
  at += 4;
  if (unit < 0xD800 || unit > 0xDFFF) return unit;
  if (unit > 0xDBFF || text.size() - at < 6 || text.substr(at, 2) != "\\u") return std::nullopt;
  const std::uint32_t low = unit_at(text, at + 2);
  if (low < 0xDC00 || low > 0xDFFF) return std::nullopt;
  at += 6;
  return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
}

char simple_escape(char letter) {
  switch (letter) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return letter;
  }
}

bool unescape(std::string_view text, LoneSurrogate lone, std::string& out) {
  constexpr std::uint32_t kReplacement = 0xFFFD;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '\\') {
      out.push_back(text[at++]);
      continue;
    }
    const char letter = text[at + 1];
    at += 2;
    if (letter != 'u') {
      out.push_back(simple_escape(letter));
      continue;
    }
    const auto point = code_point(text, at);
    if (!point && lone == LoneSurrogate::refuse) return false;
    append_utf8(out, point.value_or(kReplacement));
  }
  return true;
}

}  // namespace

void append_json_text(std::string& out, std::string_view text) {
  const char* end = text.data() + text.size();
  if (plain_run_end(text.data(), end) != end) return append_json_string(out, text);
  out += '"';
  out += text;
  out += '"';
}

void JsonScanner::skip_blanks() {
  at_ = Walker(end_).blanks(at_);
}

bool JsonScanner::value(JsonValue& out) {
  if (!ok_) return false;
  skip_blanks();
  if (at_ == end_) return fail();
  const char* from = at_;
  out.kind = kind_of(*from);
  out.escaped = false;
  Walker walker(end_);
  const char* after =
      out.kind == JsonKind::string ? walker.string_rest(from + 1, out.escaped) : walker.value(from);
  if (after == nullptr) return fail();
  out.text = {from, static_cast<std::size_t>(after - from)};
  at_ = after;
  return true;
}

bool JsonScanner::enter(char bracket) {
  if (!ok_) return false;
  skip_blanks();
  if (at_ == end_ || *at_ != bracket) return fail();
  ++at_;
  first_ = true;
  return true;
}

bool JsonScanner::next(char closing) {
  if (!ok_) return false;
  skip_blanks();
  if (at_ == end_) return fail();
  const bool first = std::exchange(first_, false);
  if (*at_ == closing) {
    ++at_;
    return false;
  }
  if (first) return true;
  if (*at_ != ',') return fail();
  ++at_;
  skip_blanks();
  // A closing bracket after a comma is no value, and the caller's read of one refuses it.
  return at_ < end_ || fail();
}

bool JsonScanner::next_element() {
  return next(']');
}

bool JsonScanner::next_field(JsonValue& key) {
  if (!next('}')) return false;
  if (*at_ != '"') return fail();
  if (!value(key)) return false;
  skip_blanks();
  if (at_ == end_ || *at_ != ':') return fail();
  ++at_;
  return true;
}

bool JsonScanner::done() {
  skip_blanks();
  return ok_ && at_ == end_;
}

bool is_json(std::string_view text) {
  JsonScanner scanner(text);
  JsonValue value;
  return scanner.value(value) && scanner.done();
}

bool is_utf8_fast(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

std::optional<std::string> string_of(const JsonValue& value, LoneSurrogate lone) {
  if (value.kind != JsonKind::string) return std::nullopt;
  if (!value.escaped) return std::string(value.bare());
  std::string out;
  if (!unescape(value.bare(), lone, out)) return std::nullopt;
  return out;
}

std::optional<std::string_view> view_of(const JsonValue& value, std::deque<std::string>& arena) {
  if (value.kind == JsonKind::string && !value.escaped) return value.bare();
  auto text = string_of(value);
  if (!text) return std::nullopt;
  return arena.emplace_back(std::move(*text));
}

std::optional<std::int64_t> integer_of(const JsonValue& value) {
  if (value.kind != JsonKind::number) return std::nullopt;
  std::int64_t out = 0;
  const char* end = value.text.data() + value.text.size();
  const auto parsed = std::from_chars(value.text.data(), end, out);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return out;
}

std::optional<std::int64_t> integral_of(const JsonValue& value) {
  if (const auto plain = integer_of(value)) return plain;
  if (value.kind != JsonKind::number) return std::nullopt;
  double out = 0;
  const char* end = value.text.data() + value.text.size();
  const auto parsed = std::from_chars(value.text.data(), end, out);
  // Above 2^53 a double no longer tells neighbours apart, so such a text is not known to be integral.
  constexpr double kExactMax = 9007199254740992.0;
  if (parsed.ec != std::errc{} || std::abs(out) > kExactMax || out != std::floor(out)) return std::nullopt;
  return static_cast<std::int64_t>(out);
}

std::optional<JsonFields> JsonFields::of(const JsonValue& value) {
  if (value.kind != JsonKind::object) return std::nullopt;
  JsonFields out;
  JsonScanner scanner(value.text);
  scanner.enter_object();
  for (JsonValue key; scanner.next_field(key);) {
    const auto name = view_of(key, out.arena_);
    JsonValue content;
    if (!name || !scanner.value(content)) return std::nullopt;
    out.fields_.push_back({*name, content});
  }
  if (!scanner.ok()) return std::nullopt;
  return out;
}

const JsonValue* JsonFields::find(std::string_view name) const {
  for (auto field = fields_.rbegin(); field != fields_.rend(); ++field)
    if (field->name == name) return &field->value;
  return nullptr;
}

const JsonValue* JsonFields::find_set(std::string_view name) const {
  const JsonValue* value = find(name);
  return value != nullptr && value->is_null() ? nullptr : value;
}

std::vector<std::string_view> JsonFields::names() const {
  std::vector<std::string_view> out;
  out.reserve(fields_.size());
  for (const Field& field : fields_) out.push_back(field.name);
  return out;
}

std::optional<std::vector<JsonValue>> elements_of(const JsonValue& value) {
  if (value.kind != JsonKind::array) return std::nullopt;
  std::vector<JsonValue> out;
  JsonScanner scanner(value.text);
  scanner.enter_array();
  while (scanner.next_element()) {
    JsonValue element;
    if (!scanner.value(element)) return std::nullopt;
    out.push_back(element);
  }
  if (!scanner.ok()) return std::nullopt;
  return out;
}

std::size_t compact_bytes(std::string_view json) {
  std::size_t bytes = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (!in_string && is_blank(c)) continue;
    ++bytes;
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') {
      ++bytes;
      ++at;
    }
  }
  return bytes;
}

}  // namespace queen::api
