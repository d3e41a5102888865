// AES-256-GCM of payloads at rest (api-state.md 12). One key per process; without one there is no cipher.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "auth/envelope.h"
#include "base/bytes.h"
#include "base/result.h"

namespace queen::auth {

// Thread-safe. Keeps the one copy of the key that the process needs, and wipes it at the end.
class PayloadCipher {
 public:
  // `hex`: 64 hex digits, the key. Errors: invalid; the text says what is wrong and never quotes the key.
  static Result<std::unique_ptr<PayloadCipher>> from_hex(std::string_view hex);
  ~PayloadCipher();
  PayloadCipher(const PayloadCipher&) = delete;
  PayloadCipher& operator=(const PayloadCipher&) = delete;

  // The envelope of `payload`, under 16 fresh random bytes: from OpenSSL, not from base::Random, since a
  // nonce that comes twice gives the key stream away. Errors: unavailable (the library failed).
  Result<Bytes> seal(BytesView payload) const;
  // As seal(), under a given iv, of which the first 12 bytes are the nonce. Never twice under one key.
  Result<Bytes> seal_with(const SealedIv& iv, BytesView payload) const;
  // What was sealed. Nothing for a text that is no envelope, or that another key made, or that was changed.
  std::optional<Bytes> open(BytesView stored) const;

 private:
  struct Library;
  explicit PayloadCipher(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

// Overwrites the characters of `text`, so that they are in no core dump and no freed memory; then it is
// empty.
void wipe(std::string& text);

}  // namespace queen::auth
