#include "s3/detail/xml.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

namespace queen::s3 {
namespace {

constexpr std::size_t kReferenceCharsMax = 12;  // between `&` and `;`

constexpr std::array<std::pair<std::string_view, char>, 5> kNamed = {
    {{"quot", '"'}, {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"apos", '\''}}};

void append_utf8(std::string& out, std::uint32_t c) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out += {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  } else if (c < 0x10000) {
    out += {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  } else {
    out += {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
  }
}

bool append_numeric(std::string& out, std::string_view digits) {
  const bool hex = !digits.empty() && (digits[0] == 'x' || digits[0] == 'X');
  if (hex) digits.remove_prefix(1);
  std::uint32_t c = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), c, hex ? 16 : 10);
  if (error != std::errc() || end != digits.data() + digits.size()) return false;
  if (c == 0 || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return false;
  append_utf8(out, c);
  return true;
}

// `name` is what stands between `&` and `;`.
bool append_reference(std::string& out, std::string_view name) {
  if (!name.empty() && name[0] == '#') return append_numeric(out, name.substr(1));
  for (const auto& [known, c] : kNamed) {
    if (name != known) continue;
    out.push_back(c);
    return true;
  }
  return false;
}

struct Found {
  std::string_view text;
  std::size_t end;  // position behind the closing tag
};

std::optional<Found> find_element(std::string_view xml, std::string_view name, std::size_t from) {
  const std::string open = "<" + std::string(name);
  const std::string close = "</" + std::string(name) + ">";
  for (;;) {
    const std::size_t at = xml.find(open, from);
    if (at == std::string_view::npos) return std::nullopt;
    from = at + open.size();
    if (from == xml.size()) return std::nullopt;
    const char after = xml[from];
    if (after != '>' && after != ' ' && after != '/' && after != '\t' && after != '\n' && after != '\r')
      continue;
    const std::size_t tag_end = xml.find('>', from);
    if (tag_end == std::string_view::npos) return std::nullopt;
    if (xml[tag_end - 1] == '/') return Found{{}, tag_end + 1};
    const std::size_t closed = xml.find(close, tag_end);
    if (closed == std::string_view::npos) return std::nullopt;
    return Found{xml.substr(tag_end + 1, closed - tag_end - 1), closed + close.size()};
  }
}

}  // namespace

std::string decode_references(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '&') {
      const std::size_t end = text.substr(0, i + 2 + kReferenceCharsMax).find(';', i);
      if (end != std::string_view::npos && append_reference(out, text.substr(i + 1, end - i - 1))) {
        i = end;
        continue;
      }
    }
    out.push_back(text[i]);
  }
  return out;
}

std::string encode_references(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::optional<std::string> element_text(std::string_view xml, std::string_view name) {
  const auto found = find_element(xml, name, 0);
  if (!found) return std::nullopt;
  return decode_references(found->text);
}

std::vector<std::string> element_texts(std::string_view xml, std::string_view name) {
  std::vector<std::string> out;
  std::size_t from = 0;
  while (const auto found = find_element(xml, name, from)) {
    out.push_back(decode_references(found->text));
    from = found->end;
  }
  return out;
}

}  // namespace queen::s3
