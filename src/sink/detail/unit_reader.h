// The settings of one sink out of whatever source names them (s3-sink.md 4.3).
#pragma once

#include "sink/detail/setting_reader.h"
#include "sink/settings.h"

namespace queen::sink::detail {

// What `reader` refuses it keeps; the result counts only when it refused nothing.
UnitSettings read_unit(SettingReader& reader);

}  // namespace queen::sink::detail
