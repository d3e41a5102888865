#include "s3/digests.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/invariant.h"
#include "base/text.h"

namespace queen::s3 {
namespace {

Bytes digest(const EVP_MD* kind, BytesView bytes) {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  const int done = EVP_Digest(bytes.data(), bytes.size(), out, &size, kind, nullptr);
  INVARIANT(done == 1, "OpenSSL computes no {}", EVP_MD_get0_name(kind));
  return {reinterpret_cast<const char*>(out), size};
}

}  // namespace

std::string sha256_hex(BytesView bytes) {
  return hex_lower(digest(EVP_sha256(), bytes));
}

Bytes md5_raw(BytesView bytes) {
  return digest(EVP_md5(), bytes);
}

Bytes hmac_sha256(BytesView key, BytesView bytes) {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  const auto* const done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), out, &size);
  INVARIANT(done != nullptr, "OpenSSL computes no HMAC-SHA256");
  return {reinterpret_cast<const char*>(out), size};
}

}  // namespace queen::s3
