// Keys and rows of the store as JSON, for `queenctl data dump`.
#pragma once

#include <string>

#include "base/bytes.h"
#include "store/keyspace.h"

namespace queen::cli {

// User data (KV values, dead letters, timers, states) is shown as its length unless asked for.
enum class Payloads : bool { hidden, shown };

// Each a JSON object; what does not parse is {"hex":"…"}.
std::string key_json(store::Keyspace keyspace, BytesView key);
std::string row_json(store::Keyspace keyspace, BytesView value, Payloads payloads);

}  // namespace queen::cli
