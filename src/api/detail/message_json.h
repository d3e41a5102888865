// The payload of a stored message as JSON text, on every route that returns one.
#pragma once

#include <string>

#include "base/text.h"
#include "broker/broker.h"

namespace queen::api {

// The producer's own text. A payload that is stored encrypted and cannot be read here is a string of its
// bytes.
inline void append_payload(std::string& out, const broker::Message& message) {
  if (message.null_payload) {
    out += "null";
  } else if (message.encrypted) {
    append_json_string(out, to_valid_utf8(message.payload));
  } else {
    out += message.payload;
  }
}

}  // namespace queen::api
