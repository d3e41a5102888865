#include "lake/detail/zstd_parameters.h"

#include <fmt/format.h>

namespace queen::lake {
namespace {

// Level 3 by its name and by each of its parameters (those of zstd 1.5 for inputs above 256 KiB): a later
// library may change what a level means, and would change the bytes with it.
struct Parameter {
  ZSTD_cParameter name;
  int value;
};
constexpr Parameter kParameters[] = {
    {ZSTD_c_compressionLevel, 3}, {ZSTD_c_windowLog, 21},        {ZSTD_c_hashLog, 16},
    {ZSTD_c_chainLog, 17},        {ZSTD_c_searchLog, 1},         {ZSTD_c_minMatch, 5},
    {ZSTD_c_targetLength, 0},     {ZSTD_c_strategy, ZSTD_dfast}, {ZSTD_c_enableLongDistanceMatching, 0},
    {ZSTD_c_contentSizeFlag, 1},  {ZSTD_c_checksumFlag, 1},      {ZSTD_c_dictIDFlag, 0},
    {ZSTD_c_nbWorkers, 0},
};

}  // namespace

Result<ZstdContext> make_zstd_context() {
  ZstdContext context(ZSTD_createCCtx(), ZSTD_freeCCtx);
  if (!context) return Error{Errc::unavailable, "zstd could not compress an object: no memory"};
  for (const Parameter& parameter : kParameters) {
    const std::size_t code = ZSTD_CCtx_setParameter(context.get(), parameter.name, parameter.value);
    if (ZSTD_isError(code))
      return Error{Errc::unavailable,
                   fmt::format("zstd could not compress an object: {}", ZSTD_getErrorName(code))};
  }
  return context;
}

}  // namespace queen::lake
