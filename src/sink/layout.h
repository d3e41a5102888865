// Names of everything the sink writes: keys in the bucket and in the KV, and the window alignment they rest
// on (s3-sink.md 5, 14; docs/formats/bucket.md). Pure functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace queen::sink {

enum class Align : std::uint8_t { hour, day, none };
enum class Layout : std::uint8_t { merged, per_partition };
std::string_view name_of(Align align);    // `hour`, `day`, `none`
std::string_view name_of(Layout layout);  // `merged`, `per-partition`
std::optional<Align> parse_align(
    std::string_view name);  // canonical names only; aliases belong to the settings
std::optional<Layout> parse_layout(std::string_view name);

// The unit in µs: 3600 s, 86400 s; nothing for none.
std::optional<std::int64_t> align_unit_us(Align align);
// The greatest multiple of the unit at or below `us`, also for times before 1970; `us` itself for none.
std::int64_t align_floor(Align align, std::int64_t us);
// The smallest multiple of the unit strictly above `us`; nothing for none.
std::optional<std::int64_t> next_boundary(Align align, std::int64_t us);

// Where one queue of one tenant lives in the bucket. Names are plain here and percent-encoded in keys.
struct LakePath {
  std::string prefix;  // without outer slashes, not empty
  std::string tenant;
  std::string queue;
};
struct WindowBounds {
  std::uint64_t k = 0;       // from 1
  std::int64_t t_start = 0;  // µs
  std::int64_t t_end = 0;    // µs, exclusive
  bool operator==(const WindowBounds&) const = default;
};
struct PartitionRun {  // the records of one object under layout per-partition
  std::string partition;
  std::uint64_t first_offset = 0, last_offset = 0;  // inclusive
  bool operator==(const PartitionRun&) const = default;
};

// `<prefix>/tenant=…/queue=…/dt=…/hour=…/w-<k>-<tStart>-<tEnd>[-p-<partition>-<first>-<last>].<ext>`. `hour=`
// is left out under align day only. `extension` without a leading dot.
std::string data_key(const LakePath& path, Align align, const WindowBounds& bounds,
                     std::string_view extension, const PartitionRun* run = nullptr);
std::string manifest_key(const LakePath& path, std::uint64_t k);
std::string checkpoint_key(const LakePath& path, std::uint64_t k);
// What every checkpoint key of the queue starts with (ends in a slash).
std::string checkpoint_prefix(const LakePath& path);
// What every key of the queue starts with: its data objects, its sidecars.
std::vector<std::string> queue_prefixes(const LakePath& path);
// The k of a checkpoint key of this queue; nothing for any other key, and for a number that does not fit.
std::optional<std::uint64_t> parse_checkpoint_key(const LakePath& path, std::string_view key);

// KV keys, in namespace `queen-s3` of the queue's tenant.
std::string lease_key(std::string_view sink, std::string_view queue);
std::string intent_key(std::string_view sink, std::string_view queue);
std::string committed_key(std::string_view sink, std::string_view queue);
std::string presence_prefix(std::string_view sink);  // `s3:<sink>:node=`
std::string presence_key(std::string_view sink, std::string_view instance);

}  // namespace queen::sink
