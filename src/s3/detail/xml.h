// As much XML as S3's answers need: the text of elements by name. The input is hostile: nothing here
// recurses, expands entities of a document's own, or reads past the end.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace queen::s3 {

// `&quot; &amp; &lt; &gt; &apos;` and numeric references decoded in one pass (`&amp;lt;` gives `&lt;`); a
// reference that is none of these, or names no character, stays as it stands.
std::string decode_references(std::string_view text);
// `&`, `<` and `>` as references: for text that goes between two tags.
std::string encode_references(std::string_view text);

// Decoded text of the first element of that name (attributes allowed, namespace prefixes not), nullopt when
// there is none or it is not closed. An element inside counts as text: ask for leaves.
std::optional<std::string> element_text(std::string_view xml, std::string_view name);
// Of every such element, in order.
std::vector<std::string> element_texts(std::string_view xml, std::string_view name);

}  // namespace queen::s3
