#include "auth/envelope.h"

#include <simdjson.h>

#include <algorithm>

#include "base/text.h"

namespace queen::auth {
namespace {

constexpr std::string_view kHead = R"({"encrypted":")", kIv = R"(","iv":")", kTag = R"(","authTag":")",
                           kEnd = R"("})";
constexpr std::size_t kDigits = 24;  // base64 of 16 bytes
constexpr std::size_t kTailBytes = kIv.size() + kDigits + kTag.size() + kDigits + kEnd.size();

struct Texts {
  std::string_view encrypted, iv, tag;
};

template <std::size_t N>
bool decode_into(std::string_view text, std::array<std::uint8_t, N>& to) {
  const auto bytes = base64_decode(text);
  if (!bytes || bytes->size() != N) return false;
  std::copy(bytes->begin(), bytes->end(), to.begin());
  return true;
}

std::optional<Envelope> decode(const Texts& texts) {
  Envelope out;
  if (!decode_into(texts.iv, out.iv) || !decode_into(texts.tag, out.tag)) return std::nullopt;
  auto ciphertext = base64_decode(texts.encrypted);
  if (!ciphertext) return std::nullopt;
  out.ciphertext = *std::move(ciphertext);
  return out;
}

// As write_envelope() makes it: the places of everything are known, and no parser is needed.
std::optional<Envelope> read_own(BytesView text) {
  if (text.size() < kHead.size() + kTailBytes || !text.starts_with(kHead)) return std::nullopt;
  const std::size_t end = text.size() - kTailBytes;
  BytesView tail = text.substr(end);
  if (!tail.starts_with(kIv) || !tail.ends_with(kEnd)) return std::nullopt;
  tail.remove_prefix(kIv.size());
  if (tail.substr(kDigits, kTag.size()) != kTag) return std::nullopt;
  return decode({text.substr(kHead.size(), end - kHead.size()), tail.substr(0, kDigits),
                 tail.substr(kDigits + kTag.size(), kDigits)});
}

// A key is spelled out, or with escapes.
bool may_be_envelope(BytesView text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == BytesView::npos || text[first] != '{') return false;
  return text.find("\"authTag\"") != BytesView::npos || text.find("\\u") != BytesView::npos;
}

std::optional<Envelope> read_any(BytesView text) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  if (parser.parse(text.data(), text.size()).get(object) != simdjson::SUCCESS) return std::nullopt;
  // A repeated member replaces the one before, as in every body.
  std::optional<std::string_view> encrypted, iv, tag;
  for (const auto field : object) {
    std::string_view value;
    const bool is_text = field.value.get(value) == simdjson::SUCCESS;
    const auto here = is_text ? std::optional(value) : std::nullopt;
    if (field.key == "encrypted") encrypted = here;
    if (field.key == "iv") iv = here;
    if (field.key == "authTag") tag = here;
  }
  if (!encrypted || !iv || !tag) return std::nullopt;
  return decode({*encrypted, *iv, *tag});
}

std::string_view view_of(const std::array<std::uint8_t, 16>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Bytes write_envelope(const Envelope& envelope) {
  Bytes out;
  out.reserve(kHead.size() + (envelope.ciphertext.size() + 2) / 3 * 4 + kTailBytes);
  out += kHead;
  append_base64(out, envelope.ciphertext);
  out += kIv;
  append_base64(out, view_of(envelope.iv));
  out += kTag;
  append_base64(out, view_of(envelope.tag));
  out += kEnd;
  return out;
}

std::optional<Envelope> read_envelope(BytesView text) {
  if (auto own = read_own(text)) return own;
  return may_be_envelope(text) ? read_any(text) : std::nullopt;
}

}  // namespace queen::auth
