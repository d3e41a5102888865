// The judge of request bodies: documents that are JSON, documents that are not, and slices byte for byte.
#include "api/detail/json_check.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/text.h"

namespace queen::api {
namespace {

const std::vector<std::string> kGood = {
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "-1",
    "42.00",
    "1e5",
    "1E+5",
    "1e-05",
    "0.5e0",
    "123456789012345678901234567890",
    "1e999",
    R"("")",
    R"("a")",
    R"("\"\\\/\b\f\n\r\t")",
    R"("\u0000")",
    R"("\uD800")",
    R"("\uDC00\uD800")",
    R"("\uD83D\uDE00")",
    "\"\x7F\"",
    "\"\xC3\xA9\"",
    "[]",
    "[ ]",
    "{}",
    "{ }",
    "[1]",
    "[1,2 , 3]",
    "[[],[[]],{}]",
    R"({"a":1})",
    R"({"a":1,"a":2})",
    R"({"":0})",
    R"({"a":{"b":[{"c":null}]}})",
    " \t\r\n1 \t\r\n",
    R"([ "abcdefghijklmnopqrstuvwxyz0123456789", {"k" : "abcdefghijklmnop\"qrstuvwxyz"} ])",
    R"({"a" : [ true , false , null ] , "b" : "c" })"};

const std::vector<std::string> kBad = {"",
                                       " ",
                                       "nul",
                                       "nulll",
                                       "True",
                                       "tru",
                                       "fals",
                                       "NaN",
                                       "Infinity",
                                       "-Infinity",
                                       "-",
                                       "+1",
                                       "01",
                                       "-01",
                                       "1.",
                                       ".5",
                                       "1.e5",
                                       "1e",
                                       "1e+",
                                       "0x10",
                                       "1_000",
                                       "1 2",
                                       "\"",
                                       "\"a",
                                       "'a'",
                                       R"("\x41")",
                                       R"("\u12")",
                                       R"("\u12G4")",
                                       R"("\)",
                                       "\"a\nb\"",
                                       std::string("\"a\0b\"", 5),
                                       "\"\x1F\"",
                                       "[",
                                       "]",
                                       "[1",
                                       "[1,",
                                       "[1,]",
                                       "[,1]",
                                       "[1 2]",
                                       "[1,,2]",
                                       "{",
                                       "}",
                                       "{]",
                                       "[}",
                                       R"({"a"})",
                                       R"({"a":})",
                                       R"({"a":1,})",
                                       R"({,"a":1})",
                                       R"({a:1})",
                                       R"({"a":1 "b":2})",
                                       R"({"a" 1})",
                                       R"({1:1})",
                                       R"({"a":1}})",
                                       "[1]]",
                                       R"({"a":1]})",
                                       "[1}",
                                       "/* c */ 1",
                                       "1 // c",
                                       "\xEF\xBB\xBF 1",
                                       "[\"a\" : 1]",
                                       R"({"a":1,"b"})",
                                       "[\"abcdefghijklmnopqrstuvwxyz]",
                                       "tRue",
                                       "[tru]",
                                       "\v1"};

std::string nested(std::size_t depth, char open, char close) {
  return std::string(depth, open) + std::string(depth, close);
}

TEST(JsonCheck, AcceptsEveryJsonDocument) {
  for (const std::string& text : kGood) EXPECT_TRUE(is_json(text)) << text;
}

TEST(JsonCheck, RefusesEveryOtherDocument) {
  for (const std::string& text : kBad) EXPECT_FALSE(is_json(text)) << text;
}

TEST(JsonCheck, RefusesEveryTruncationOfADocument) {
  const std::string text = R"({"a":[1.5e3,{"b":"c\u00e9d"}],"e":null,"f":"abcdefghijklmnopqrstuvwxyz"})";
  ASSERT_TRUE(is_json(text));
  for (std::size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(is_json(text.substr(0, n))) << n;
}

TEST(JsonCheck, CountsNestingToItsLimit) {
  EXPECT_TRUE(is_json(nested(1024, '[', ']')));
  EXPECT_FALSE(is_json(nested(1025, '[', ']')));
  std::string objects;
  for (int i = 0; i < 1024; ++i) objects += R"({"a":)";
  objects += "1" + std::string(1024, '}');
  EXPECT_TRUE(is_json(objects));
  EXPECT_FALSE(is_json(R"({"a":)" + objects + "}"));
  EXPECT_FALSE(is_json(std::string(1'000'000, '[')));
}

TEST(JsonCheck, TellsBracketsApartAtEveryDepth) {
  std::string open, close;
  for (int i = 0; i < 130; ++i) {
    const bool object = i % 3 == 0;
    open += object ? R"({"k":)" : "[";
    close = (object ? "}" : "]") + close;
  }
  EXPECT_TRUE(is_json(open + "0" + close));
  for (std::size_t i = 0; i < close.size(); ++i) {
    std::string wrong = close;
    wrong[i] = wrong[i] == '}' ? ']' : '}';
    EXPECT_FALSE(is_json(open + "0" + wrong)) << i;
  }
}

TEST(JsonCheck, FindsWhatEndsAStringAtEveryPositionOfAVector) {
  for (std::size_t n = 0; n < 70; ++n) {
    const std::string run(n, 'x');
    EXPECT_TRUE(is_json('"' + run + '"')) << n;
    EXPECT_TRUE(is_json('"' + run + "\\\"" + run + '"')) << n;
    EXPECT_FALSE(is_json('"' + run + '\x01' + run + '"')) << n;
    EXPECT_FALSE(is_json('"' + run + "\\q" + run + '"')) << n;
    EXPECT_TRUE(is_json('"' + run + "\xC3\xA9" + '"')) << n;
  }
}

TEST(JsonScanner, GivesValuesAsTheyWereSent) {
  JsonScanner scanner(R"( { "a" : 42.00 , "b":[ 1, 2 ] ,"c":"x\ny" } )");
  ASSERT_TRUE(scanner.enter_object());
  std::vector<std::string> seen;
  JsonValue key, value;
  while (scanner.next_field(key)) {
    ASSERT_TRUE(scanner.value(value));
    seen.push_back(std::string(key.bare()) + "=" + std::string(value.text));
  }
  EXPECT_TRUE(scanner.done());
  EXPECT_EQ(seen, (std::vector<std::string>{"a=42.00", "b=[ 1, 2 ]", R"(c="x\ny")"}));
}

TEST(JsonScanner, StaysFailedAfterAFault) {
  JsonScanner scanner("[1,,2]");
  JsonValue value;
  ASSERT_TRUE(scanner.enter_array());
  ASSERT_TRUE(scanner.next_element());
  ASSERT_TRUE(scanner.value(value));
  ASSERT_TRUE(scanner.next_element());
  EXPECT_FALSE(scanner.value(value));
  EXPECT_FALSE(scanner.next_element());
  EXPECT_FALSE(scanner.value(value));
  EXPECT_FALSE(scanner.done());
}

JsonValue scan(std::string_view text) {
  JsonScanner scanner(text);
  JsonValue value;
  EXPECT_TRUE(scanner.value(value)) << text;
  return value;
}

TEST(JsonStrings, AreUnescaped) {
  EXPECT_EQ(string_of(scan(R"("a\u00e9\"\\\/\b\f\n\r\tz")")), "a\xC3\xA9\"\\/\b\f\n\r\tz");
  EXPECT_EQ(string_of(scan(R"("\uD83D\uDE00")")), "\xF0\x9F\x98\x80");
  EXPECT_EQ(string_of(scan(R"("\u20ac")")), "\xE2\x82\xAC");
  EXPECT_EQ(string_of(scan(R"("\u0000")")), std::string(1, '\0'));
  EXPECT_EQ(string_of(scan("7")), std::nullopt);
}

TEST(JsonStrings, RefuseOrReplaceLoneSurrogates) {
  for (const std::string_view text :
       {R"("\uD800")", R"("\uDC00")", R"("\uD800x")", R"("\uD800\n1234")", R"("\uD800\uD800")"}) {
    EXPECT_EQ(string_of(scan(text)), std::nullopt) << text;
    EXPECT_TRUE(is_utf8(*string_of(scan(text), LoneSurrogate::replace))) << text;
  }
}

TEST(JsonNumbers, AreIntegersOnlyWhenWrittenSo) {
  EXPECT_EQ(integer_of(scan("-9223372036854775808")), std::numeric_limits<std::int64_t>::min());
  for (const std::string_view text : {"9223372036854775808", "1.0", "1e2", "\"1\"", "true"})
    EXPECT_EQ(integer_of(scan(text)), std::nullopt) << text;
  EXPECT_EQ(integral_of(scan("30.0")), 30);
  EXPECT_EQ(integral_of(scan("3e1")), 30);
  EXPECT_EQ(integral_of(scan("-0")), 0);
  for (const std::string_view text : {"1.5", "1e300", "1e999", "\"30\"", "null"})
    EXPECT_EQ(integral_of(scan(text)), std::nullopt) << text;
}

TEST(JsonFieldsTest, KeepTheLastOfFieldsWithOneName) {
  const auto fields = JsonFields::of(scan(R"({"a":1,"\u0061":2,"b":null})"));
  ASSERT_TRUE(fields);
  EXPECT_EQ(fields->find("a")->text, "2");
  EXPECT_NE(fields->find("b"), nullptr);
  EXPECT_EQ(fields->find_set("b"), nullptr);
  EXPECT_EQ(fields->find("c"), nullptr);
  EXPECT_FALSE(JsonFields::of(scan("[]")));
}

TEST(CompactBytes, LeavesOutBlanksBetweenTokensOnly) {
  EXPECT_EQ(compact_bytes(R"( { "a b" : [ 1 , "c \" d" ] } )"),
            std::string_view(R"({"a b":[1,"c \" d"]})").size());
}

std::string arbitrary_json(int depth) {
  const int kind = *rc::gen::inRange(0, depth > 0 ? 6 : 4);
  const std::string blank = *rc::gen::elementOf(std::vector<std::string>{"", " ", "\n\t"});
  if (kind == 0)
    return blank + *rc::gen::elementOf(std::vector<std::string>{"null", "true", "false"}) + blank;
  if (kind == 1) return std::to_string(*rc::gen::arbitrary<std::int64_t>());
  if (kind <= 3) return blank + json_string(*rc::gen::arbitrary<std::string>()) + blank;
  std::string out(1, kind == 4 ? '[' : '{');
  const int count = *rc::gen::inRange(0, 4);
  for (int i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    if (kind == 5) out += json_string(*rc::gen::arbitrary<std::string>()) + blank + ":";
    out += arbitrary_json(depth - 1);
  }
  return out + (kind == 4 ? ']' : '}');
}

TEST(JsonProperty, WhatIsWrittenIsReadBack) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = *rc::gen::arbitrary<std::string>();
    RC_ASSERT(string_of(scan(json_string(text))) == text);
  }));
}

TEST(JsonProperty, GeneratedDocumentsPassAndTheirProperPrefixesDoNot) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = "[" + arbitrary_json(4) + "]";
    RC_ASSERT(is_json(text));
    RC_ASSERT(!is_json(text.substr(0, *rc::gen::inRange<std::size_t>(0, text.size()))));
    RC_ASSERT(!is_json(text + "]"));
    RC_ASSERT(scan(" " + text + " ").text.size() == text.size());
  }));
}

}  // namespace
}  // namespace queen::api
