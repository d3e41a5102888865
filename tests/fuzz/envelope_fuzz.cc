// Bytes of a payload into the reader of envelopes, which every read of a message goes through: it refuses
// them or understands them, and what it understands has one compact text, which reads back the same. Bytes
// that a key never sealed do not open.
#include <cstddef>
#include <cstdint>

#include "auth/payload_cipher.h"
#include "base/invariant.h"

namespace {

using namespace queen;

const auth::PayloadCipher& cipher() {
  static const auto made = auth::PayloadCipher::from_hex(std::string(64, '7'));
  return **made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const BytesView bytes(reinterpret_cast<const char*>(data), size);
  const auto envelope = auth::read_envelope(bytes);
  const auto opened = cipher().open(bytes);
  INVARIANT(envelope || !opened, "a text of {} bytes that is no envelope was opened", size);
  if (envelope) {
    const Bytes text = auth::write_envelope(*envelope);
    const auto again = auth::read_envelope(text);
    INVARIANT(again && again->ciphertext == envelope->ciphertext && again->iv == envelope->iv &&
                  again->tag == envelope->tag,
              "an envelope of {} bytes comes back different", size);
    // Another spelling of the same members goes the general way and must mean the same.
    const auto spaced = auth::read_envelope(" " + text);
    INVARIANT(spaced && spaced->ciphertext == envelope->ciphertext, "the two readers differ on {} bytes",
              size);
  }
  const auto sealed = cipher().seal(bytes);
  INVARIANT(sealed && cipher().open(*sealed) == bytes, "{} bytes do not come back", size);
  return 0;
}
