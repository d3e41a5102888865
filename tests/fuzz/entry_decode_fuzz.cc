// Bytes of a peer or a file into the entry decoder: it refuses or understands them, and what it understands
// it writes back as it was.
#include <cstddef>
#include <cstdint>

#include "base/hash.h"
#include "base/invariant.h"
#include "machine/effects.h"

namespace {

using namespace queen;

// Behind the frame. We write the lowest catalogue that an entry needs and take a higher one.
Bytes body_without_catalogue(BytesView entry) {
  constexpr std::size_t kFrame = 12, kFormat = 2, kCatalogue = 4;
  return Bytes(entry.substr(kFrame, kFormat)).append(entry.substr(kFrame + kFormat + kCatalogue));
}

void decode_and_return(BytesView bytes) {
  const auto appends = machine::appends_of(bytes);
  const auto entry = machine::decode_entry(bytes);
  if (!entry) return;
  INVARIANT(appends.has_value(), "an entry decodes and its appends do not: {}", appends.error().what);
  INVARIANT(body_without_catalogue(machine::encode_entry(*entry)) == body_without_catalogue(bytes),
            "an entry of {} bytes comes back different", bytes.size());
  INVARIANT(machine::entry_digest(*entry).size() == 16, "a digest is not 16 digits");
  ignore(machine::validate_entry(*entry), "any verdict will do, as long as there is one");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const BytesView input(reinterpret_cast<const char*>(data), size);
  decode_and_return(input);
  // The same bytes as a body: a fuzzer does not find a checksum by itself.
  Bytes framed;
  append_le(framed, static_cast<std::uint32_t>(size));
  append_le(framed, xxh3_64(input));
  framed.append(input);
  decode_and_return(framed);
  return 0;
}
