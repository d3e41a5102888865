#include "auth/payload_cipher.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <climits>

#include "base/text.h"

namespace queen::auth {
namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr int kNonceBytes = 12;  // of the 16 that are stored (EN-2)

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
struct FreeCipher {
  void operator()(EVP_CIPHER* cipher) const { EVP_CIPHER_free(cipher); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

const unsigned char* bytes_of(BytesView view) {
  return reinterpret_cast<const unsigned char*>(view.data());
}
unsigned char* bytes_of(Bytes& bytes) {
  return reinterpret_cast<unsigned char*>(bytes.data());
}

}  // namespace

struct PayloadCipher::Library {
  std::unique_ptr<EVP_CIPHER, FreeCipher> cipher{EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr)};
  std::array<std::uint8_t, kKeyBytes> key{};
  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { OPENSSL_cleanse(key.data(), key.size()); }
};

PayloadCipher::PayloadCipher(std::unique_ptr<Library> library) : library_(std::move(library)) {}
PayloadCipher::~PayloadCipher() = default;

Result<std::unique_ptr<PayloadCipher>> PayloadCipher::from_hex(std::string_view hex) {
  auto key = hex_decode(hex);
  if (hex.size() != 2 * kKeyBytes || !key) {
    if (key) wipe(*key);
    return Error{Errc::invalid,
                 fmt::format("{} characters that must be {} hex digits", hex.size(), 2 * kKeyBytes)};
  }
  auto library = std::make_unique<Library>();
  std::copy(key->begin(), key->end(), library->key.begin());
  wipe(*key);
  if (!library->cipher) return Error{Errc::unavailable, "OpenSSL has no AES-256-GCM"};
  return std::unique_ptr<PayloadCipher>(new PayloadCipher(std::move(library)));
}

Result<Bytes> PayloadCipher::seal(BytesView payload) const {
  SealedIv iv;
  if (RAND_bytes(iv.data(), static_cast<int>(iv.size())) != 1)
    return Error{Errc::unavailable, "OpenSSL has no random bytes"};
  return seal_with(iv, payload);
}

Result<Bytes> PayloadCipher::seal_with(const SealedIv& iv, BytesView payload) const {
  const Error failed{Errc::unavailable, "OpenSSL did not encrypt"};
  if (payload.size() > INT_MAX) return failed;
  Envelope out;
  out.iv = iv;
  out.ciphertext.resize(payload.size());
  const Context context(EVP_CIPHER_CTX_new());
  int size = 0, rest = 0;
  static_assert(kNonceBytes == 12, "the nonce that AES-GCM takes unless it is told otherwise");
  const bool done = context &&
                    EVP_EncryptInit_ex2(context.get(), library_->cipher.get(), library_->key.data(),
                                        iv.data(), nullptr) == 1 &&
                    EVP_EncryptUpdate(context.get(), bytes_of(out.ciphertext), &size, bytes_of(payload),
                                      static_cast<int>(payload.size())) == 1 &&
                    EVP_EncryptFinal_ex(context.get(), bytes_of(out.ciphertext) + size, &rest) == 1 &&
                    EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG,
                                        static_cast<int>(out.tag.size()), out.tag.data()) == 1;
  if (!done || static_cast<std::size_t>(size) + static_cast<std::size_t>(rest) != payload.size())
    return failed;
  return write_envelope(out);
}

std::optional<Bytes> PayloadCipher::open(BytesView stored) const {
  auto sealed = read_envelope(stored);
  if (!sealed || sealed->ciphertext.size() > INT_MAX) return std::nullopt;
  Bytes out;
  out.resize(sealed->ciphertext.size());
  const Context context(EVP_CIPHER_CTX_new());
  int size = 0, rest = 0;
  const bool done =
      context &&
      EVP_DecryptInit_ex2(context.get(), library_->cipher.get(), library_->key.data(), sealed->iv.data(),
                          nullptr) == 1 &&
      EVP_DecryptUpdate(context.get(), bytes_of(out), &size, bytes_of(BytesView(sealed->ciphertext)),
                        static_cast<int>(sealed->ciphertext.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, static_cast<int>(sealed->tag.size()),
                          sealed->tag.data()) == 1 &&
      EVP_DecryptFinal_ex(context.get(), bytes_of(out) + size, &rest) == 1;
  if (!done) {
    wipe(out);  // of bytes that nobody vouches for
    return std::nullopt;
  }
  return out;
}

void wipe(std::string& text) {
  OPENSSL_cleanse(text.data(), text.size());
  text.clear();
}

}  // namespace queen::auth
