#include "s3/sigv4.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "s3/digests.h"

namespace queen::s3 {
namespace {

enum class Slash : bool { kept, encoded };

bool is_unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

std::string encode(std::string_view text, Slash slash) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size() + 16);
  for (const char c : text) {
    if (is_unreserved(c) || (c == '/' && slash == Slash::kept)) {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += {'%', kDigits[byte >> 4], kDigits[byte & 0xF]};
  }
  return out;
}

// Trimmed, inner runs of blanks and tabs as one blank.
std::string canonical_value(std::string_view value) {
  std::string out;
  for (const char c : trim(value)) {
    const bool blank = c == ' ' || c == '\t';
    if (blank && !out.empty() && out.back() == ' ') continue;
    out.push_back(blank ? ' ' : c);
  }
  return out;
}

std::map<std::string, std::string> canonical_headers(const std::vector<NamedValue>& headers) {
  std::map<std::string, std::string> out;
  for (const NamedValue& header : headers) {
    auto [at, added] = out.try_emplace(lower_ascii(header.name), canonical_value(header.value));
    if (!added) at->second += "," + canonical_value(header.value);
  }
  return out;
}

std::string signature_of(std::string_view string_to_sign, const SigningKey& key, std::string_view day) {
  std::string first = fmt::format("AWS4{}", key.secret_key);
  std::string chain = hmac_sha256(first, day);
  OPENSSL_cleanse(first.data(), first.size());  // it holds the secret
  for (const std::string_view link :
       {std::string_view(key.region), std::string_view("s3"), std::string_view("aws4_request")})
    chain = hmac_sha256(chain, link);
  return hex_lower(hmac_sha256(chain, string_to_sign));
}

}  // namespace

std::string encode_path(std::string_view path) {
  return encode(path, Slash::kept);
}

std::string canonical_query(const std::vector<NamedValue>& parameters) {
  std::vector<std::pair<std::string, std::string>> encoded;
  encoded.reserve(parameters.size());
  for (const NamedValue& parameter : parameters)
    encoded.emplace_back(encode(parameter.name, Slash::encoded), encode(parameter.value, Slash::encoded));
  std::sort(encoded.begin(), encoded.end());
  std::string out;
  for (const auto& [name, value] : encoded)
    out += fmt::format("{}{}={}", out.empty() ? "" : "&", name, value);
  return out;
}

SignedText sign(const UnsignedRequest& request, const SigningKey& key, std::int64_t wall_us) {
  std::string lines;
  std::string names;
  for (const auto& [name, value] : canonical_headers(request.headers)) {
    lines += fmt::format("{}:{}\n", name, value);
    names += (names.empty() ? "" : ";") + name;
  }
  SignedText out;
  out.canonical_request = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, request.path, request.query,
                                      lines, names, request.payload_sha256_hex);
  const std::string instant = basic_utc_seconds(wall_us);
  const std::string day = instant.substr(0, 8);
  const std::string scope = fmt::format("{}/{}/s3/aws4_request", day, key.region);
  out.string_to_sign =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", instant, scope, sha256_hex(out.canonical_request));
  out.authorization = fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
                                  key.access_key, scope, names, signature_of(out.string_to_sign, key, day));
  return out;
}

}  // namespace queen::s3
