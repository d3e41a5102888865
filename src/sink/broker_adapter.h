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

}  // namespace queen::sink
