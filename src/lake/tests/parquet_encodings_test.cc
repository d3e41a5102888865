// The encodings of Parquet pages and the bounds of its statistics, each by itself.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "base/text.h"
#include "lake/detail/bounds.h"
#include "lake/detail/delta_binary.h"
#include "lake/detail/rle_hybrid.h"

namespace queen::lake {
namespace {

Bytes packed(const std::vector<std::int64_t>& values) {
  Bytes bytes;
  append_delta_binary(bytes, values);
  return bytes;
}

// The example of the format's own text: 7, 5, 3, 1, 2, 3, 4, 5 in a block of 128 and four miniblocks.
TEST(DeltaBinary, EncodesTheFormatsExample) {
  EXPECT_EQ(hex_lower(packed({7, 5, 3, 1, 2, 3, 4, 5})),
            "8001"              // block of 128
            "04"                // miniblocks
            "08"                // values
            "0e"                // 7
            "03"                // least delta -2
            "02000000"          // widths: those of unused miniblocks are 0 (HD-21)
            "c03f000000000000"  // 0 0 0 3 3 3 3, then zeros up to 32
  );
}

TEST(DeltaBinary, ConstantsAndConsecutiveNumbersTakeNoBits) {
  std::vector<std::int64_t> values(20'000, 1'794'042'290'991'204);
  EXPECT_LT(packed(values).size(), 1000U);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i);
  const Bytes bytes = packed(values);
  EXPECT_LT(bytes.size(), 1000U);
  EXPECT_EQ(read_delta_binary(bytes, 20'000).value(), values);
}

TEST(DeltaBinary, PadsTheLastMiniblockInUse) {
  // One delta more than a miniblock holds: the second one is whole as well.
  std::vector<std::int64_t> values(34, 0);
  values[33] = 1;
  const Bytes bytes = packed(values);
  EXPECT_EQ(bytes.size(), 2U + 1 + 1 + 1 + 1 + 4 + 4);
  EXPECT_EQ(read_delta_binary(bytes, 34).value(), values);
}

RC_GTEST_PROP(DeltaBinaryProperty, AnyNumbersComeBack, (std::vector<std::int64_t> values, std::int64_t one)) {
  values.push_back(one);
  values.push_back(std::numeric_limits<std::int64_t>::max());
  values.push_back(std::numeric_limits<std::int64_t>::min());
  const auto count = static_cast<std::uint32_t>(values.size());
  const Bytes bytes = packed(values);
  RC_ASSERT(read_delta_binary(bytes, count).value() == values);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    RC_ASSERT(!read_delta_binary(BytesView(bytes).substr(0, size), count));
  RC_ASSERT(!read_delta_binary(bytes, count + 1));
  RC_ASSERT(!read_delta_binary(bytes + '\0', count));
}

TEST(RleHybrid, LongStretchesAreRunsAndShortOnesArePacked) {
  const std::vector<lake::Run> runs = {{0, 3}, {1, 13}, {2, 1}};
  Bytes bytes;
  append_hybrid(bytes, runs, 2);
  EXPECT_EQ(hex_lower(bytes),
            "034055"  // one group: 0 0 0 1 1 1 1 1
            "1001"    // a run of 8 ones
            "030200"  // one group: 2, then zeros
  );
}

TEST(RleHybrid, AValueTakesAtLeastOneBit) {
  EXPECT_EQ(width_of(0), 1U);
  EXPECT_EQ(width_of(1), 1U);
  EXPECT_EQ(width_of(2), 2U);
  EXPECT_EQ(width_of(255), 8U);
  EXPECT_EQ(width_of(256), 9U);
}

RC_GTEST_PROP(RleHybridProperty, AnyRunsComeBack, ()) {
  const auto counts =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange(1U, 40U)));
  std::vector<lake::Run> runs;
  std::vector<std::uint32_t> values;
  for (const std::uint32_t count : counts) {
    runs.push_back({*rc::gen::inRange(0U, 1U << 17), count});
    values.insert(values.end(), count, runs.back().value);
  }
  const unsigned width = width_of(*std::max_element(values.begin(), values.end()));
  const auto count = static_cast<std::uint32_t>(values.size());
  Bytes bytes;
  append_hybrid(bytes, runs, width);
  RC_ASSERT(read_hybrid(bytes, width, count).value() == values);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    RC_ASSERT(!read_hybrid(BytesView(bytes).substr(0, size), width, count));
  RC_ASSERT(!read_hybrid(bytes + '\0', width, count));
}

TextBounds bounds_of(std::initializer_list<BytesView> values) {
  TextBounds bounds;
  for (const BytesView value : values) bounds.see(value);
  return bounds;
}

TEST(TextBounds, ShortValuesAreExact) {
  const TextBounds bounds = bounds_of({"m", "", "z"});
  EXPECT_EQ(bounds.min().value, "");
  EXPECT_EQ(bounds.max().value, "z");
  EXPECT_TRUE(bounds.min().exact && bounds.max().exact);
  const std::string whole(64, 'w');
  EXPECT_EQ(bounds_of({whole}).max().value, whole);
  EXPECT_TRUE(bounds_of({whole}).max().exact);
}

TEST(TextBounds, NoValueHasNoBounds) {
  EXPECT_FALSE(TextBounds{}.min().value);
  EXPECT_FALSE(TextBounds{}.max().value);
}

TEST(TextBounds, ALongMaximumIsRaisedInItsLastCharacter) {
  const TextBounds bounds = bounds_of({std::string(65, 'w')});
  EXPECT_EQ(bounds.min().value, std::string(64, 'w'));
  EXPECT_FALSE(bounds.min().exact);
  EXPECT_EQ(bounds.max().value, std::string(63, 'w') + "x");
  EXPECT_FALSE(bounds.max().exact);
}

// 63 bytes and a character of two: it does not stand half in a bound.
TEST(TextBounds, AreCutAtACharacter) {
  const TextBounds bounds = bounds_of({std::string(63, 'w') + "\xC3\xA8" + "tail"});
  EXPECT_EQ(bounds.min().value, std::string(63, 'w'));
  EXPECT_EQ(bounds.max().value, std::string(62, 'w') + "x");
}

TEST(TextBounds, ACharacterThatCannotBeRaisedIsLeftOut) {
  const std::string del(10, '\x7F');
  EXPECT_EQ(bounds_of({std::string(54, 'w') + del + "tail"}).max().value, std::string(53, 'w') + "x");
  std::string greatest;
  for (int i = 0; i < 17; ++i) greatest += "\xF4\x8F\xBF\xBF";
  EXPECT_FALSE(bounds_of({greatest}).max().value);
  EXPECT_TRUE(bounds_of({greatest}).min().value);
  // U+D7FF is followed by U+E000: there is no character between.
  const std::string before_surrogates = std::string(61, 'w') + "\xED\x9F\xBF";
  EXPECT_EQ(bounds_of({before_surrogates + "tail"}).max().value, std::string(61, 'w') + "\xEE\x80\x80");
}

TEST(TextBounds, BytesThatAreNoTextGetNoRaisedMaximum) {
  EXPECT_FALSE(bounds_of({std::string(80, '\xFF')}).max().value);
}

RC_GTEST_PROP(TextBoundsProperty, BoundEveryValueAndAreText, ()) {
  const auto character =
      rc::gen::element<std::string>("a", "\x7F", "\xC3\xA8", "\xDF\xBF", "\xED\x9F\xBF", "\xEF\xBF\xBF",
                                    "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF");
  TextBounds bounds;
  std::vector<std::string> values;
  for (int i = 0; i < 5; ++i) {
    std::string value;
    for (const std::string& next : *rc::gen::container<std::vector<std::string>>(80, character))
      value += next;
    values.push_back(value);
    bounds.see(values.back());
  }
  const Bound min = bounds.min();
  const Bound max = bounds.max();
  RC_ASSERT(min.value && is_utf8(*min.value) && min.value->size() <= kBoundBytesMax);
  RC_ASSERT(!max.value || (is_utf8(*max.value) && max.value->size() <= kBoundBytesMax));
  for (const std::string& value : values) {
    RC_ASSERT(*min.value <= value);
    RC_ASSERT(!max.value || *max.value >= value);
  }
}

TEST(Int64Bounds, AreExactAndLittleEndian) {
  Int64Bounds bounds;
  EXPECT_FALSE(bounds.min().value);
  for (const std::int64_t value : {5, -2, 9}) bounds.see(value);
  EXPECT_EQ(hex_lower(*bounds.min().value), "feffffffffffffff");
  EXPECT_EQ(hex_lower(*bounds.max().value), "0900000000000000");
}

}  // namespace
}  // namespace queen::lake
