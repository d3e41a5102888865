// The settings of a sink as an operator writes them: every plan goes through the variables and their reader.
#pragma once

#include "sink/settings.h"
#include "story.h"

namespace queen::sim {

// What the node makes of the variables that say `wanted`; sizes finer than the variables can say are those of
// `wanted`. A setting that comes back as another is a violation, and so is a mistake that is not refused:
// `mistake` picks one of some, 0 none.
sink::SinkSettings through_variables(Story& story, const sink::SinkSettings& wanted, std::uint64_t mistake);

}  // namespace queen::sim
