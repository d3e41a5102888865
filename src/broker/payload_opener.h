// Payloads as readers get them: what is stored sealed is opened where this node's key does it (api-state.md
// EN-6). Every read of messages and dead letters goes through here.
#pragma once

#include <cstddef>
#include <optional>

#include "broker/broker.h"

namespace queen::broker {

// Thread-safe.
class PayloadOpener {
 public:
  // `cipher` outlives this; null: everything stays as it is stored.
  explicit PayloadOpener(const auth::PayloadCipher* cipher) : cipher_(cipher) {}

  // Of the messages from `first` on, which come as the log has them: `encrypted` says that they are stored
  // so. Afterwards it says that they still are.
  void open(Messages& messages, std::size_t first) const;
  // The JSON text that is sealed in `stored`, which carries no flag that says so; nothing when there is none.
  std::optional<Bytes> open_text(BytesView stored) const;

 private:
  const auth::PayloadCipher* cipher_;
};

}  // namespace queen::broker
