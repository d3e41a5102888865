#include "auth/payload_cipher.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "base/text.h"

namespace queen::auth {
namespace {

// 00 01 .. 1f, and the iv a0 a1 .. af.
constexpr const char* kKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
SealedIv counted_iv() {
  SealedIv iv;
  for (std::size_t i = 0; i < iv.size(); ++i) iv[i] = static_cast<std::uint8_t>(0xA0 + i);
  return iv;
}
std::unique_ptr<PayloadCipher> cipher_of(std::string_view hex) {
  auto cipher = PayloadCipher::from_hex(hex);
  EXPECT_TRUE(cipher.has_value());
  return std::move(*cipher);
}

// The texts were made by Python's `cryptography`: AESGCM(key).encrypt(iv[:12], payload, None).
TEST(PayloadCipher, SealsAsTheKnownAnswer) {
  const auto cipher = cipher_of(kKey);
  const std::vector<std::pair<std::string, std::string>> answers = {
      {"{\"order\":42,\"note\":\"caf\xC3\xA9\"}",
       R"({"encrypted":"nToTXyGucJ1YUbX/JRSvqhWOYzLx1iSvNSxb","iv":"oKGio6SlpqeoqaqrrK2urw==","authTag":"TKY9dDrjtcMbIW3yiX4URQ=="})"},
      {"null",
       R"({"encrypted":"iG0QQQ==","iv":"oKGio6SlpqeoqaqrrK2urw==","authTag":"DUMCtcxgyOr5p44YCGUFkQ=="})"},
      {"", R"({"encrypted":"","iv":"oKGio6SlpqeoqaqrrK2urw==","authTag":"XGmWJa9Lk6D4IgoqYRnF0A=="})"},
  };
  for (const auto& [payload, envelope] : answers) {
    const auto sealed = cipher->seal_with(counted_iv(), payload);
    ASSERT_TRUE(sealed.has_value());
    EXPECT_EQ(*sealed, envelope);
    EXPECT_EQ(cipher->open(envelope), payload);
  }
}

RC_GTEST_PROP(PayloadCipher, OpensWhatItSealed, (const std::string& payload)) {
  const auto cipher = cipher_of(kKey);
  const auto sealed = cipher->seal(payload);
  RC_ASSERT(sealed.has_value());
  RC_ASSERT(cipher->open(*sealed) == payload);
}

TEST(PayloadCipher, UsesAnIvOnce) {
  const auto cipher = cipher_of(kKey);
  std::set<Bytes> seen;
  for (int i = 0; i < 200; ++i) {
    const auto envelope = read_envelope(*cipher->seal("1"));
    ASSERT_TRUE(envelope.has_value());
    seen.insert(Bytes(reinterpret_cast<const char*>(envelope->iv.data()), 12));
  }
  EXPECT_EQ(seen.size(), 200U);
}

TEST(PayloadCipher, OpensNothingThatWasChangedOrIsAnothers) {
  const auto cipher = cipher_of(kKey);
  const std::string sealed = *cipher->seal_with(counted_iv(), "{\"a\":1}");
  std::string other_key = kKey;
  other_key.back() = 'e';
  EXPECT_FALSE(cipher_of(other_key)->open(sealed));
  for (const std::size_t at :
       {sealed.find("\":\"") + 4, sealed.find("\"iv\":\"") + 7, sealed.find("authTag\":\"") + 11}) {
    std::string changed = sealed;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(cipher->open(changed)) << changed;
  }
  EXPECT_FALSE(cipher->open("{\"a\":1}"));
}

// The last four bytes of the iv are stored and have no part in the cipher (EN-2).
TEST(PayloadCipher, NonceIsTheFirstTwelveBytes) {
  const auto cipher = cipher_of(kKey);
  SealedIv iv = counted_iv();
  auto envelope = *read_envelope(*cipher->seal_with(iv, "[1]"));
  envelope.iv[15] ^= 0xFF;
  EXPECT_EQ(cipher->open(write_envelope(envelope)), "[1]");
  envelope.iv[11] ^= 0xFF;
  EXPECT_FALSE(cipher->open(write_envelope(envelope)));
}

TEST(PayloadCipher, RefusesKeysThatAreNone) {
  const std::string key = kKey;
  EXPECT_TRUE(PayloadCipher::from_hex("ABCDEF" + key.substr(6)).has_value());
  for (const std::string& bad :
       {std::string(), key.substr(1), key + "0", "g" + key.substr(1), key.substr(2) + " 0"}) {
    const auto cipher = PayloadCipher::from_hex(bad);
    ASSERT_FALSE(cipher.has_value()) << bad;
    EXPECT_EQ(cipher.error().code, Errc::invalid);
    EXPECT_EQ(cipher.error().what.find(key.substr(8, 8)), std::string::npos) << cipher.error().what;
  }
}

TEST(PayloadCipher, WipesText) {
  std::string text = "0123456789abcdef0123456789abcdef";
  const char* const at = text.data();
  wipe(text);
  EXPECT_TRUE(text.empty());
  EXPECT_EQ(std::string(at, 16), std::string(16, '\0'));  // still the string's own room
}

TEST(Envelope, ReadsAnyObjectWithTheThreeTexts) {
  const std::string iv = R"("oKGio6SlpqeoqaqrrK2urw==")", tag = R"("TKY9dDrjtcMbIW3yiX4URQ==")";
  const auto text = [&](std::string_view body) {
    std::string out(body);
    out.replace(out.find("IV"), 2, iv);
    out.replace(out.find("TAG"), 3, tag);
    return out;
  };
  for (const char* body : {
           R"({"encrypted":"iG0QQQ==","iv":IV,"authTag":TAG})",
           R"( { "authTag" : TAG , "iv":IV, "encrypted":"iG0QQQ==" } )",
           R"({"v":1,"encrypted":"iG0QQQ==","iv":IV,"authTag":TAG,"more":[{"iv":2}]})",
           R"({"encrypt\u0065d":"iG0QQQ==","iv":IV,"\u0061uthTag":TAG})",
           R"({"encrypted":"","encrypted":"iG0QQQ==","iv":IV,"authTag":TAG})",
       }) {
    const auto envelope = read_envelope(text(body));
    ASSERT_TRUE(envelope.has_value()) << body;
    EXPECT_EQ(hex_lower(envelope->ciphertext), "886d1041");
  }
  for (const char* body : {
           R"(["encrypted","iG0QQQ==","iv",IV,"authTag",TAG])",
           R"({"encrypted":1,"iv":IV,"authTag":TAG})",
           R"({"encrypted":"iG0QQQ==","encrypted":null,"iv":IV,"authTag":TAG})",
           R"({"encrypted":"iG0QQQ=","iv":IV,"authTag":TAG})",
           R"({"Encrypted":"iG0QQQ==","iv":IV,"authTag":TAG})",
           R"({"encrypted":"iG0QQQ==","iv":IV,"tag":TAG})",
           R"({"encrypted":"iG0QQQ==","iv":IV,"authTag":TAG)",
           R"({"of":{"encrypted":"iG0QQQ==","iv":IV,"authTag":TAG}})",
       })
    EXPECT_FALSE(read_envelope(text(body))) << body;
  EXPECT_FALSE(
      read_envelope(R"({"encrypted":"iG0QQQ==","iv":"iG0QQQ==","authTag":"TKY9dDrjtcMbIW3yiX4URQ=="})"));
  EXPECT_FALSE(
      read_envelope(R"({"encrypted":"iG0QQQ==","iv":"oKGio6SlpqeoqaqrrK2urw==","authTag":"iG0QQQ=="})"));
}

TEST(Envelope, RejectsEveryTruncation) {
  const std::string whole = *cipher_of(kKey)->seal("{\"a\":[1,2,3]}");
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(read_envelope(whole.substr(0, n))) << n;
}

}  // namespace
}  // namespace queen::auth
