// The sinks of tenants: rows of the control plane that come, change, are switched off and on, and the lake of
// a tenant that must be right all the same.
#pragma once

#include "workload.h"

namespace queen::sim {

struct TenantsPlan {
  std::string queue = "rides";
  std::int64_t partitions = 2, pushes = 6;
  std::int64_t changes = 2;  // of the row
  std::int64_t pause_us_max = 500 * kMsUs;
  bool all_queues = false;  // the sink copies whatever there is
  bool bad_rows = false;    // others that no sink can be made of
};
TenantsPlan draw_tenants(Dice& dice, bool small);

// The node has a cipher and reads the rows.
std::unique_ptr<Workload> make_tenants(Scene& scene, TenantsPlan plan);

}  // namespace queen::sim
