#include "cli/lake_show.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/json_line.h"
#include "lake/record_reader.h"
#include "s3/digests.h"

namespace queen::cli {
namespace {

using EachWindow = std::function<Result<bool>(const sink::Manifest& manifest)>;  // false stops

// Nothing behind the last window. Errors: also corrupt when windows lie behind a hole.
Result<std::optional<sink::Manifest>> window(LakeBucket& bucket, std::uint64_t k) {
  auto manifest = bucket.manifest(k);
  const std::string key = sink::manifest_key(bucket.path(), k);
  if (!manifest && manifest.error().code == Errc::corrupt)
    return Error{Errc::corrupt, key + ": " + manifest.error().what};
  if (!manifest || *manifest) return manifest;
  const auto above = bucket.window_above(k);
  if (!above) return above.error();
  if (*above) return Error{Errc::corrupt, fmt::format("{} is not there, and window {} is", key, **above)};
  if (k == 1)
    return Error{Errc::not_found,
                 fmt::format("there is no window of queue {}: {} is not there", bucket.path().queue, key)};
  return std::optional<sink::Manifest>();
}

// The first window that ends above `from`, or one behind the last: windows ascend, so it is found by halving.
Result<std::uint64_t> first_window(LakeBucket& bucket, std::int64_t from) {
  std::uint64_t low = 1, high = 1;
  for (;; high *= 2) {
    const auto found = window(bucket, high);
    if (!found) return found.error();
    if (!*found || (*found)->bounds.t_end > from) break;
    low = high + 1;
  }
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    const auto found = window(bucket, middle);
    if (!found) return found.error();
    if (!*found || (*found)->bounds.t_end > from)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

Status each_window(LakeBucket& bucket, const LakeStretch& stretch, const EachWindow& each) {
  const auto first = first_window(bucket, stretch.from);
  if (!first) return first.error();
  for (std::uint64_t k = *first;; ++k) {
    const auto found = window(bucket, k);
    if (!found) return found.error();
    if (!*found || (*found)->bounds.t_start >= stretch.to) return {};
    const auto more = each(**found);
    if (!more) return more.error();
    if (!*more) return {};
  }
}

std::string line_of(const sink::Manifest& manifest, LakeText text) {
  const std::string start = iso_micros(manifest.bounds.t_start), end = iso_micros(manifest.bounds.t_end);
  if (text == LakeText::plain)
    return fmt::format("{:>10} {} {} {:>6} objects {:>10} records {:>12} bytes", manifest.bounds.k, start,
                       end, manifest.objects.size(), manifest.records, manifest.bytes);
  std::string keys;
  for (const auto& object : manifest.objects) keys += (keys.empty() ? "" : ",") + json_string(object.key);
  JsonObject out;
  out.add("k", manifest.bounds.k)
      .add("tStart", start)
      .add("tEnd", end)
      .raw("objects", "[" + keys + "]")
      .add("records", manifest.records)
      .add("bytes", manifest.bytes)
      .add("format", manifest.format)
      .add("compression", manifest.compression)
      .add("layout", manifest.layout)
      .add("recordsLost", sink::count_of(manifest.lost));
  return out.str();
}

std::string line_of(const lake::ReadRecord& record) {
  std::string payload = record.payload.value_or("null");
  // Parquet keeps line breaks between JSON tokens, a line cannot.
  for (char& c : payload)
    if (c == '\n' || c == '\r') c = ' ';
  return fmt::format(R"({{"partition":{},"offset":{},"transactionId":{},"ts":"{}","payload":{}}})",
                     json_string(record.partition), record.offset, json_string(record.transaction_id),
                     iso_micros(record.ts), payload);
}

Result<bool> print_object(LakeBucket& bucket, const sink::ManifestObject& object, const LakeStretch& stretch,
                          const std::optional<std::string>& partition, const LakeLine& line) {
  const auto corrupt = [&](const std::string& what) {
    return Error{Errc::corrupt, object.key + ": " + what};
  };
  const auto bytes = bucket.get(object.key, std::min(object.bytes, kObjectBytesMax));
  if (!bytes && bytes.error().code == Errc::corrupt) return corrupt(bytes.error().what);
  if (!bytes) return bytes.error();
  if (!*bytes) return corrupt("it is not in the bucket");
  if (s3::sha256_hex(**bytes) != object.sha256) return corrupt("its sha256 is not the one of its manifest");
  auto reader = lake::open_object(object.key, **bytes);
  if (!reader) return corrupt(reader.error().what);
  for (;;) {
    const auto record = (*reader)->next();
    if (!record) return corrupt(record.error().what);
    if (!*record) return true;
    const bool wanted = stretch.has((*record)->ts) && (!partition || (*record)->partition == *partition);
    if (wanted && !line(line_of(**record))) return false;
  }
}

}  // namespace

Status list_windows(LakeBucket& bucket, const LakeStretch& stretch, LakeText text, const LakeLine& line) {
  return each_window(bucket, stretch, [&](const sink::Manifest& manifest) -> Result<bool> {
    return line(line_of(manifest, text));
  });
}

Status print_records(LakeBucket& bucket, const LakeStretch& stretch,
                     const std::optional<std::string>& partition, const LakeLine& line) {
  return each_window(bucket, stretch, [&](const sink::Manifest& manifest) -> Result<bool> {
    for (const auto& object : manifest.objects) {
      if (partition && object.run && object.run->partition != *partition) continue;
      auto more = print_object(bucket, object, stretch, partition, line);
      if (!more || !*more) return more;
    }
    return true;
  });
}

}  // namespace queen::cli
