// The payload of a stored message as JSON text, on every route that returns one.
#pragma once

#include <string>

#include "base/text.h"
#include "broker/broker.h"

namespace queen::api {

// The producer's own text. Of a payload that is stored encrypted and cannot be read here, the envelope
// (EN-8).
inline void append_payload(std::string& out, const broker::Message& message) {
  if (message.null_payload) {
    out += "null";
  } else {
    out += message.payload;
  }
}

// For readers that copy messages elsewhere, as the S3 sink does: what cannot be read here must not look like
// a message's own object, so it is a string of the stored bytes.
inline void append_copied_payload(std::string& out, const broker::Message& message) {
  if (message.encrypted) {
    append_json_string(out, to_valid_utf8(message.payload));
  } else {
    append_payload(out, message);
  }
}

}  // namespace queen::api
