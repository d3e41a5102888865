// The figures of a node as Prometheus reads them.
#pragma once

#include <string_view>

#include "base/prometheus_text.h"
#include "broker/broker.h"
#include "http/server.h"

namespace queen::ops {

// The exposition of this node; `more` is added as it stands: whole families of another room. Walks over all
// queues: on Broker::look().
http::Response prometheus_response(broker::Broker& broker, std::string_view more);

}  // namespace queen::ops
