#include "base/text.h"

#include <gtest/gtest.h>

namespace queen {
namespace {

TEST(IsoMicros, RendersSixDigitsAndZ) {
  EXPECT_EQ(iso_micros(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(iso_micros(1'794'042'291'004'417), "2026-11-07T09:04:51.004417Z");
  EXPECT_EQ(iso_micros(-1), "1969-12-31T23:59:59.999999Z");
}

TEST(IsoMicros, TrimsTheFractionForKvAnswers) {
  EXPECT_EQ(iso_trimmed_offset(1'794'042'291'512'900), "2026-11-07T09:04:51.5129+00:00");
  EXPECT_EQ(iso_trimmed_offset(1'794'042'291'000'000), "2026-11-07T09:04:51+00:00");
}

TEST(ParseIso, StrictTakesOneToSixDigitsAndOnlyZ) {
  EXPECT_EQ(parse_iso_micros_strict("2026-11-07T09:04:51.004417Z"), 1'794'042'291'004'417);
  EXPECT_EQ(parse_iso_micros_strict("2026-11-07T09:04:51Z"), 1'794'042'291'000'000);
  for (const char* bad :
       {"2026-11-07 09:04:51Z", "2026-11-07T09:04:51+00:00", "2026-11-07T09:04:51.0044171Z",
        "2026-02-30T09:04:51Z", "2026-11-07T24:00:00Z", "", "2026-11-07", "2026-11-07T09:04:51.Z"}) {
    EXPECT_FALSE(parse_iso_micros_strict(bad)) << bad;
  }
}

TEST(ParseIso, LooseTakesWhatClientsSend) {
  EXPECT_EQ(parse_iso_micros("2026-11-07T10:04:51.004417999+01:00"), 1'794'042'291'004'417);
  EXPECT_EQ(parse_iso_micros("2026-11-07 09:04:51"), 1'794'042'291'000'000);
  EXPECT_FALSE(parse_iso_micros("now"));
}

TEST(PercentCode, EncodesEveryByteOutsideTheAlphabet) {
  EXPECT_EQ(percent_encode_name("a b/ü:c"), "a%20b%2F%C3%BC%3Ac");
  EXPECT_EQ(percent_decode("a%2Fb%zz%4", PlusIs::plus), "a/b%zz%4");
  EXPECT_EQ(percent_decode("a+b", PlusIs::blank), "a b");
}

// Plain text is looked at by words: each byte, at each place of a word and behind the last whole one.
TEST(JsonString, EscapesTheSameAtEveryPlace) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    const std::string quoted = json_string(one);
    const std::string expected = quoted.substr(1, quoted.size() - 2);
    EXPECT_EQ(expected != one, byte < 0x20 || one == "\"" || one == "\\") << byte;
    for (std::size_t at = 0; at < 19; ++at) {
      const std::string before(at, 'x'), after(18 - at, '\xC3');
      EXPECT_EQ(json_string(before + one + after), '"' + before + expected + after + '"')
          << byte << " at " << at;
    }
  }
}

TEST(JsonString, EscapesControlsQuotesAndNothingElse) {
  EXPECT_EQ(json_string(std::string_view("a\"\\\b\f\n\r\t\x01/\x7Fü", 13)),
            "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001/\x7Fü\"");
}

TEST(Base64, PadsAsRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
}

TEST(Base64, DecodesWhatItEncodes) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(base64_decode(base64(bytes)), bytes) << i;
    bytes.push_back(static_cast<char>(i * 37));
  }
}

TEST(Base64, RefusesEverythingElse) {
  for (const char* bad :
       {"Zg", "Zg=", "Z===", "====", "Zh==", "Zm9=", "Zm9v\n", " Zm9", "Zm-_", "Zg==Zm9v", "=Zm9"})
    EXPECT_FALSE(base64_decode(bad)) << bad;
}

TEST(Utf8, RefusesOverlongSurrogatesAndTooLarge) {
  EXPECT_TRUE(is_utf8("plain ü € 𝄞"));
  for (const char* bad : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80", "\xE2\x82"})
    EXPECT_FALSE(is_utf8(bad));
  EXPECT_EQ(to_valid_utf8("a\xFFz"), "a\xEF\xBF\xBDz");
}

}  // namespace
}  // namespace queen
