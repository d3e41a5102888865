#include "sink/broker_port.h"

namespace queen::sink {

std::string_view name_of(CallClass cls) {
  switch (cls) {
    case CallClass::transport:
      return "transport";
    case CallClass::status:
      return "status";
    case CallClass::body:
      return "body";
    case CallClass::integrity:
      return "integrity";
    case CallClass::precondition:
      return "precondition";
    case CallClass::config:
      return "config";
  }
  return "transport";
}

CallError make_call_error(CallClass cls, int status, std::string text,
                          std::optional<std::int64_t> retry_after_us) {
  CallError error{cls, status, std::move(text), retry_after_us, true};
  if (cls == CallClass::precondition || cls == CallClass::config) error.retriable = false;
  if (cls == CallClass::status) error.retriable = status == 408 || status == 429 || status >= 500;
  return error;
}

}  // namespace queen::sink
