// The broker as the sink's port: each call runs on the broker's own thread, never on a thread of the sink.
#pragma once

#include <memory>
#include <string>

#include "broker/broker.h"
#include "sink/broker_port.h"

namespace queen::sink {

// Calls of one tenant. `broker` outlives every answer that the port owes; the port itself may go before, and
// `clock` and `random` with it. `random` is used on the caller's threads. KV batches go straight to the state
// machine, past the tenant's rate limit.
std::unique_ptr<BrokerPort> make_broker_port(broker::Broker& broker, std::string tenant, Clock& clock,
                                             Random& random);

// A refusal of the broker as the status that a client of the public route would get (api-messaging.md 1.4).
CallError call_error_of(const broker::Refusal& refusal);

// Records of one entry; each keeps alive only the buffers that its views point into. A view that lies in no
// buffer of `messages` is copied.
std::vector<FetchedRecord> records_of(const broker::Messages& messages);
// Without the records of the last append (one stamp) when more follow in the partition, unless nothing would
// be left: a limit may have cut it, and its buffer would be held for this part of it and once more for the
// next.
std::vector<FetchedRecord> whole_appends(std::vector<FetchedRecord> records, std::uint64_t high_watermark);

}  // namespace queen::sink
