// A monitor of the sinks: their metrics and their health, as a scraper sees them.
#pragma once

#include "workload.h"

namespace queen::sim {

std::unique_ptr<Workload> make_sink_watch(Scene& scene);

}  // namespace queen::sim
