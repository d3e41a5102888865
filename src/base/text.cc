#include "base/text.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace queen {
namespace {

constexpr std::int64_t kUsPerDay = 86'400'000'000;

struct Date {
  std::int64_t year;
  unsigned month, day;
};

// Civil date of a day number, proleptic Gregorian: http://howardhinnant.github.io/date_algorithms.html
Date civil(std::int64_t days) {
  days += 719468;
  const std::int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  const auto doe = static_cast<unsigned>(days - era * 146097);
  const unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const unsigned mp = (5 * doy + 2) / 153;
  const unsigned month = mp < 10 ? mp + 3 : mp - 9;
  return {static_cast<std::int64_t>(yoe) + era * 400 + (month <= 2 ? 1 : 0), month,
          doy - (153 * mp + 2) / 5 + 1};
}

std::int64_t days_of(std::int64_t year, unsigned month, unsigned day) {
  year -= month <= 2 ? 1 : 0;
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const auto yoe = static_cast<unsigned>(year - era * 400);
  const unsigned doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  const unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
  return era * 146097 + static_cast<std::int64_t>(doe) - 719468;
}

void put_digits(char* at, int count, std::uint64_t value) {
  for (int i = count - 1; i >= 0; --i) {
    at[i] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Takes `count` digits off the front; -1 when they are not there.
std::int64_t take_digits(std::string_view& text, std::size_t count) {
  if (text.size() < count) return -1;
  std::int64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool take_char(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<std::int64_t> take_date(std::string_view& text) {
  const auto year = take_digits(text, 4);
  if (year < 0 || !take_char(text, '-')) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (month < 1 || month > 12 || !take_char(text, '-')) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (day < 1) return std::nullopt;
  const auto number = days_of(year, static_cast<unsigned>(month), static_cast<unsigned>(day));
  const Date back = civil(number);
  if (back.month != month || back.day != day) return std::nullopt;
  return number * kUsPerDay;
}

std::optional<std::int64_t> take_time(std::string_view& text, std::size_t fraction_digits_max) {
  const auto hour = take_digits(text, 2);
  if (hour < 0 || hour > 23 || !take_char(text, ':')) return std::nullopt;
  const auto minute = take_digits(text, 2);
  if (minute < 0 || minute > 59 || !take_char(text, ':')) return std::nullopt;
  const auto second = take_digits(text, 2);
  if (second < 0 || second > 59) return std::nullopt;
  std::int64_t micros = ((hour * 60 + minute) * 60 + second) * 1'000'000;
  if (take_char(text, '.')) {
    std::int64_t scale = 100'000;
    std::size_t digits = 0;
    while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
      micros += (text.front() - '0') * scale;
      scale /= 10;
      text.remove_prefix(1);
      if (++digits > fraction_digits_max) return std::nullopt;
    }
    if (digits == 0) return std::nullopt;
  }
  return micros;
}

}  // namespace

void append_iso_micros(std::string& out, std::int64_t us) {
  const std::int64_t days = floor_div(us, kUsPerDay);
  const std::int64_t in_day = us - days * kUsPerDay;
  const Date date = civil(days);
  char text[27];
  put_digits(text, 4, static_cast<std::uint64_t>(date.year));
  text[4] = '-';
  put_digits(text + 5, 2, date.month);
  text[7] = '-';
  put_digits(text + 8, 2, date.day);
  text[10] = 'T';
  const auto seconds = static_cast<std::uint64_t>(in_day / 1'000'000);
  put_digits(text + 11, 2, seconds / 3600);
  text[13] = ':';
  put_digits(text + 14, 2, seconds / 60 % 60);
  text[16] = ':';
  put_digits(text + 17, 2, seconds % 60);
  text[19] = '.';
  put_digits(text + 20, 6, static_cast<std::uint64_t>(in_day % 1'000'000));
  text[26] = 'Z';
  out.append(text, sizeof text);
}

std::string iso_micros(std::int64_t us) {
  std::string out;
  append_iso_micros(out, us);
  return out;
}

std::string iso_trimmed_offset(std::int64_t us) {
  std::string out = iso_micros(us);
  out.pop_back();
  while (out.back() == '0') out.pop_back();
  if (out.back() == '.') out.pop_back();
  return out + "+00:00";
}

std::string basic_utc_seconds(std::int64_t us) {
  const std::string iso = iso_micros(us);
  return fmt::format("{}{}{}T{}{}{}Z", iso.substr(0, 4), iso.substr(5, 2), iso.substr(8, 2),
                     iso.substr(11, 2), iso.substr(14, 2), iso.substr(17, 2));
}

std::optional<std::int64_t> parse_iso_micros_strict(std::string_view text) {
  const auto date = take_date(text);
  if (!date || !take_char(text, 'T')) return std::nullopt;
  const auto time = take_time(text, 6);
  if (!time || text != "Z") return std::nullopt;
  return *date + *time;
}

std::optional<std::int64_t> parse_iso_micros(std::string_view text) {
  const auto date = take_date(text);
  if (!date) return std::nullopt;
  if (text.empty()) return *date;
  if (!take_char(text, 'T') && !take_char(text, 't') && !take_char(text, ' ')) return std::nullopt;
  const auto time = take_time(text, 9);
  if (!time) return std::nullopt;
  const std::int64_t local = *date + *time;
  if (text.empty() || text == "Z" || text == "z") return local;
  const int sign = text.front() == '+' ? 1 : text.front() == '-' ? -1 : 0;
  if (sign == 0) return std::nullopt;
  text.remove_prefix(1);
  const auto hours = take_digits(text, 2);
  if (hours < 0 || hours > 23) return std::nullopt;
  take_char(text, ':');
  const auto minutes = take_digits(text, 2);
  if (minutes < 0 || minutes > 59 || !text.empty()) return std::nullopt;
  return local - sign * (hours * 60 + minutes) * 60'000'000;
}

std::string hex_lower(std::string_view bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    out.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
    out.push_back(kHex[static_cast<unsigned char>(c) & 15]);
  }
  return out;
}

std::optional<std::string> hex_decode(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = hex_value(text[i]);
    const int low = hex_value(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
  }
  return out;
}

namespace {

constexpr char kBase64Alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kNotBase64 = 0xFF;

constexpr std::array<std::uint8_t, 256> base64_values() {
  std::array<std::uint8_t, 256> values{};
  values.fill(kNotBase64);
  for (std::uint8_t i = 0; i < 64; ++i) values[static_cast<unsigned char>(kBase64Alphabet[i])] = i;
  return values;
}

}  // namespace

void append_base64(std::string& out, std::string_view bytes) {
  const auto byte = [bytes](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(bytes[i])}; };
  std::size_t at = out.size();
  out.resize(at + (bytes.size() + 2) / 3 * 4, '=');
  const auto put = [&out, &at](std::uint32_t word, std::size_t digits) {
    for (std::size_t i = 0; i < digits; ++i) out[at++] = kBase64Alphabet[word >> (18 - 6 * i) & 63];
  };
  std::size_t i = 0;
  for (; i + 3 <= bytes.size(); i += 3) put(byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2), 4);
  if (bytes.size() - i == 1) put(byte(i) << 16, 2);
  if (bytes.size() - i == 2) put(byte(i) << 16 | byte(i + 1) << 8, 3);
}

std::string base64(std::string_view bytes) {
  std::string out;
  append_base64(out, bytes);
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  constexpr auto kValues = base64_values();
  if (text.size() % 4 != 0) return std::nullopt;
  if (text.empty()) return std::string();
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const std::size_t digits = text.size() - padding;
  std::string out;
  out.resize(text.size() / 4 * 3);
  std::size_t to = 0;
  std::uint8_t seen = 0;  // a value that is none has bits that no digit has
  for (std::size_t at = 0; at < text.size(); at += 4) {
    std::uint32_t word = 0;
    for (std::size_t i = at; i < at + 4; ++i) {
      const std::uint8_t value = i < digits ? kValues[static_cast<unsigned char>(text[i])] : 0;
      seen |= value;
      word = word << 6 | value;
    }
    out[to++] = static_cast<char>(word >> 16);
    out[to++] = static_cast<char>(word >> 8);
    out[to++] = static_cast<char>(word);
  }
  if (seen > 63) return std::nullopt;
  // What the padding cuts off must be zeros, so that bytes have one text.
  for (std::size_t i = out.size() - padding; i < out.size(); ++i)
    if (out[i] != 0) return std::nullopt;
  out.resize(out.size() - padding);
  return out;
}

std::string percent_encode_name(std::string_view name) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(name.size());
  for (const char c : name) {
    const bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (plain) {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
      out.push_back(kHex[static_cast<unsigned char>(c) & 15]);
    }
  }
  return out;
}

std::string percent_decode(std::string_view text, PlusIs plus) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0) {
      out.push_back(static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2])));
      i += 2;
    } else {
      out.push_back(text[i] == '+' && plus == PlusIs::blank ? ' ' : text[i]);
    }
  }
  return out;
}

namespace {
// Whether one of eight bytes must be escaped in a JSON string. `below` sets the top bit of each byte under
// the limit (at most 0x80). A borrow may set it in a byte above such a one too, never in a word that has
// none.
bool any_escaped(std::uint64_t word) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kTops = 0x8080808080808080;
  const auto below = [](std::uint64_t bytes, std::uint64_t limit) {
    return (bytes - kOnes * limit) & ~bytes;
  };
  return ((below(word, 0x20) | below(word ^ (kOnes * '"'), 1) | below(word ^ (kOnes * '\\'), 1)) & kTops) !=
         0;
}

// How many bytes at the front are certain to stand as they are, in whole words.
std::size_t plain_words(std::string_view text) {
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if (any_escaped(word)) break;
  }
  return at;
}
}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  out.push_back('"');
  std::size_t start = 0;
  for (std::size_t i = plain_words(text); i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text.substr(start, i - start));
    start = i + 1;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        out += "\\u00";
        out.push_back(kHex[c >> 4]);
        out.push_back(kHex[c & 15]);
    }
  }
  out.append(text.substr(start));
  out.push_back('"');
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

namespace {
// Length of the valid sequence at the front of `s`, 0 when it is not valid.
std::size_t utf8_length(std::string_view s) {
  const auto at = [&](std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0U; };
  const auto tail = [&](std::size_t i) { return (at(i) & 0xC0U) == 0x80U; };
  const unsigned c = at(0);
  if (c < 0x80) return 1;
  if (c >= 0xC2 && c <= 0xDF) return tail(1) ? 2 : 0;
  if (c >= 0xE0 && c <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    if ((c == 0xE0 && at(1) < 0xA0) || (c == 0xED && at(1) > 0x9F)) return 0;
    return 3;
  }
  if (c >= 0xF0 && c <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if ((c == 0xF0 && at(1) < 0x90) || (c == 0xF4 && at(1) > 0x8F)) return 0;
    return 4;
  }
  return 0;
}
}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      bytes.remove_prefix(1);
    } else {
      out.append(bytes.substr(0, length));
      bytes.remove_prefix(length);
    }
  }
  return out;
}

std::string trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

std::string lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace queen
