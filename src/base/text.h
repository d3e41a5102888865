// Text forms that several rooms share: ISO times, hex, base64, percent-encoding, JSON strings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace queen {

// `2031-04-05T06:07:08.000123Z`: always six fractional digits. µs since the epoch; years 0000 to 9999.
std::string iso_micros(std::int64_t us);
void append_iso_micros(std::string& out, std::int64_t us);
// `2026-10-02T09:14:03.5129+00:00`: trailing zeros of the fraction trimmed, no fraction when zero (KV
// answers).
std::string iso_trimmed_offset(std::int64_t us);
// `20130524T000000Z` (SigV4).
std::string basic_utc_seconds(std::int64_t us);
// Strict: `YYYY-MM-DDTHH:MM:SS[.f{1,6}]Z`, a real calendar date, nothing else.
std::optional<std::int64_t> parse_iso_micros_strict(std::string_view text);
// As clients send instants: the strict form, or with 1..9 fractional digits (digits past the sixth are
// dropped), or a `+hh:mm` / `-hh:mm` offset, or a blank instead of `T`, or a bare date.
std::optional<std::int64_t> parse_iso_micros(std::string_view text);

std::string hex_lower(std::string_view bytes);
std::optional<std::string> hex_decode(std::string_view text);
std::string base64(std::string_view bytes);
void append_base64(std::string& out, std::string_view bytes);
// RFC 4648, section 4, with its padding; nothing else, no unused bits set.
std::optional<std::string> base64_decode(std::string_view text);

// Every byte outside `A-Z a-z 0-9 . _ -` becomes %XX, upper-case hex (s3-sink.md 14.1).
std::string percent_encode_name(std::string_view name);
// %XX decoded; a `%` not followed by two hex digits is kept as it stands. `plus_is_blank` for query values.
enum class PlusIs : bool { plus, blank };
std::string percent_decode(std::string_view text, PlusIs plus);

// Appends `text` as a JSON string with its quotes: `"` and `\` escaped, \b \f \n \r \t, other bytes below
// 0x20 as \u00xx in lower-case hex; everything else as it is.
void append_json_string(std::string& out, std::string_view text);
std::string json_string(std::string_view text);

// RFC 3629: no overlong forms, no surrogates, at most U+10FFFF.
bool is_utf8(std::string_view bytes);
// Invalid sequences replaced by U+FFFD.
std::string to_valid_utf8(std::string_view bytes);

std::string trim(std::string_view text);  // blanks and tabs, CR, LF at both ends
std::string lower_ascii(std::string_view text);

}  // namespace queen
