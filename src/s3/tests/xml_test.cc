#include "s3/detail/xml.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace queen::s3 {
namespace {

TEST(Xml, DecodesReferencesInOnePass) {
  EXPECT_EQ(decode_references("&quot;abc-3&quot;"), "\"abc-3\"");
  EXPECT_EQ(decode_references("&#34;abc-3&#x22;"), "\"abc-3\"");
  EXPECT_EQ(decode_references("&amp;lt;&amp;#34;"), "&lt;&#34;");
  EXPECT_EQ(decode_references("&lt;&gt;&apos;&amp;"), "<>'&");
  EXPECT_EQ(decode_references("&#232;&#x20AC;&#128578;"), "\xC3\xA8\xE2\x82\xAC\xF0\x9F\x99\x82");
}

TEST(Xml, KeepsWhatIsNoReference) {
  for (const char* text : {"&", "&;", "a & b;", "&nbsp;", "&#;", "&#x;", "&#xD800;", "&#1114112;",
                           "&#99999999999;", "&#0;", "&#-1;", "&amp", "&quotquotquotquotquot;"})
    EXPECT_EQ(decode_references(text), text);
}

TEST(Xml, FindsTextByElementName) {
  constexpr std::string_view kXml =
      "\n\n  <?xml version=\"1.0\"?><R "
      "xmlns=\"http://x/\"><KeyCount>2</KeyCount><Contents><Key>a&amp;b</Key></Contents>"
      "<Contents><Key a='1'>c</Key></Contents><Key/><Empty></Empty></R>";
  EXPECT_EQ(element_texts(kXml, "Key"), (std::vector<std::string>{"a&b", "c", ""}));
  EXPECT_EQ(element_text(kXml, "KeyCount"), "2");
  EXPECT_EQ(element_text(kXml, "Empty"), "");
  EXPECT_EQ(element_text(kXml, "Cont"), std::nullopt);
  EXPECT_EQ(element_text(kXml, "Absent"), std::nullopt);
}

TEST(Xml, AnElementCutShortIsNone) {
  const std::string xml = "<ETag>\"abc\"</ETag>";
  for (std::size_t n = 0; n < xml.size(); ++n)
    EXPECT_EQ(element_text(xml.substr(0, n), "ETag"), std::nullopt) << n;
}

RC_GTEST_PROP(Xml, EncodedTextComesBack, (const std::string& text)) {
  RC_ASSERT(decode_references(encode_references(text)) == text);
  RC_ASSERT(element_text("<A>" + encode_references(text) + "</A>", "A") == text);
}

}  // namespace
}  // namespace queen::s3
