// Which bucket and which queue in it the `lake` commands look at: options, and behind them the variables of
// the sink.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "s3/object_store.h"
#include "sink/layout.h"

namespace queen::cli {

struct LakeOptions {  // an empty text is not given
  std::string queue;
  std::string tenant{kDefaultTenant};
  std::string endpoint, region, bucket, prefix, access_key, sink, align;
  bool path_style = false;  // given
};

struct LakeSettings {
  s3::ClientSettings client;
  sink::LakePath path;
  std::string sink;
  std::optional<sink::Align> align;  // nothing when nobody says it
};

using LakeEnvironment = std::function<std::optional<std::string>(std::string_view name)>;

// An option wins over its variable. The secret key comes from QUEEN_S3_SECRET_KEY alone: an option would be
// in the process list. Errors: invalid; the sentence names the variable, never the secret.
Result<LakeSettings> lake_settings(const LakeOptions& options, const LakeEnvironment& environment);

}  // namespace queen::cli
