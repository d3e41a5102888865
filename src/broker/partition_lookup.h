// Partitions as clients name them in paths and trace bodies (api-messaging.md 1.5).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "store/store.h"

namespace queen::broker {

// The partition of `tenant` whose number or UUID `text` is; nothing when it has none such. A number is found
// at once, a UUID by looking through all partitions, in steps. Any thread that holds no gate of the store.
std::optional<Pid> find_partition(const store::Store& store, const std::string& tenant,
                                  std::string_view text);

}  // namespace queen::broker
