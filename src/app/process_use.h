// Memory and processor time of this process, from the system.
#pragma once

#include "broker/meter.h"

namespace queen::app {

class SystemProcessProbe final : public broker::ProcessProbe {
 public:
  broker::ProcessUse use() override;
};

}  // namespace queen::app
