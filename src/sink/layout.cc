#include "sink/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace queen::sink {
namespace {

constexpr std::int64_t kSecondUs = 1'000'000;

// `<prefix>/[_queen/]tenant=…/queue=…`.
std::string root_of(const LakePath& path, std::string_view sidecar) {
  return fmt::format("{}/{}tenant={}/queue={}", path.prefix, sidecar, percent_encode_name(path.tenant),
                     percent_encode_name(path.queue));
}

// Bounds before 1970 have no sortable decimal form of fixed width; they are written as 0.
std::int64_t key_time(std::int64_t us) {
  return std::max<std::int64_t>(us, 0);
}

std::string document_key(std::string_view sink, std::string_view queue, std::string_view document) {
  return fmt::format("s3:{}:{}:{}", sink, percent_encode_name(queue), document);
}

}  // namespace

std::string_view name_of(Align align) {
  switch (align) {
    case Align::hour:
      return "hour";
    case Align::day:
      return "day";
    case Align::none:
      return "none";
  }
  return "none";
}

std::string_view name_of(Layout layout) {
  return layout == Layout::merged ? "merged" : "per-partition";
}

std::optional<Align> parse_align(std::string_view name) {
  for (const Align align : {Align::hour, Align::day, Align::none})
    if (name == name_of(align)) return align;
  return std::nullopt;
}

std::optional<Layout> parse_layout(std::string_view name) {
  for (const Layout layout : {Layout::merged, Layout::per_partition})
    if (name == name_of(layout)) return layout;
  return std::nullopt;
}

std::optional<std::int64_t> align_unit_us(Align align) {
  if (align == Align::hour) return 3600 * kSecondUs;
  if (align == Align::day) return 86400 * kSecondUs;
  return std::nullopt;
}

std::int64_t align_floor(Align align, std::int64_t us) {
  const auto unit = align_unit_us(align);
  if (!unit) return us;
  const std::int64_t past = us % *unit;  // negative for times before 1970
  return us - past - (past < 0 ? *unit : 0);
}

std::optional<std::int64_t> next_boundary(Align align, std::int64_t us) {
  const auto unit = align_unit_us(align);
  if (!unit) return std::nullopt;
  return align_floor(align, us) + *unit;
}

std::string data_key(const LakePath& path, Align align, const WindowBounds& bounds,
                     std::string_view extension, const PartitionRun* run) {
  const std::string start = iso_micros(bounds.t_start);  // YYYY-MM-DDTHH:…
  std::string key = root_of(path, "");
  key += fmt::format("/dt={}", start.substr(0, 10));
  if (align != Align::day) key += fmt::format("/hour={}", start.substr(11, 2));
  key += fmt::format("/w-{:010}-{:016}-{:016}", bounds.k, key_time(bounds.t_start), key_time(bounds.t_end));
  if (run != nullptr)
    key += fmt::format("-p-{}-{:012}-{:012}", percent_encode_name(run->partition), run->first_offset,
                       run->last_offset);
  key += fmt::format(".{}", extension);
  return key;
}

std::string manifest_key(const LakePath& path, std::uint64_t k) {
  return fmt::format("{}/windows/{:010}.json", root_of(path, "_queen/"), k);
}

std::vector<std::string> queue_prefixes(const LakePath& path) {
  return {root_of(path, "") + "/", root_of(path, "_queen/") + "/"};
}

std::string checkpoint_prefix(const LakePath& path) {
  return root_of(path, "_queen/") + "/checkpoint/";
}

std::string checkpoint_key(const LakePath& path, std::uint64_t k) {
  return fmt::format("{}{:010}.json.zst", checkpoint_prefix(path), k);
}

std::optional<std::uint64_t> parse_checkpoint_key(const LakePath& path, std::string_view key) {
  const std::string prefix = checkpoint_prefix(path);
  constexpr std::string_view kSuffix = ".json.zst";
  if (!key.starts_with(prefix) || !key.ends_with(kSuffix)) return std::nullopt;
  if (key.size() <= prefix.size() + kSuffix.size()) return std::nullopt;
  const std::string_view digits = key.substr(prefix.size(), key.size() - prefix.size() - kSuffix.size());
  std::uint64_t k = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), k);
  if (failure != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return k;
}

std::string lease_key(std::string_view sink, std::string_view queue) {
  return document_key(sink, queue, "lease");
}
std::string intent_key(std::string_view sink, std::string_view queue) {
  return document_key(sink, queue, "intent");
}
std::string committed_key(std::string_view sink, std::string_view queue) {
  return document_key(sink, queue, "committed");
}
// `node=` and not `node:`: `=` is always escaped in a queue name, so no queue's documents can begin like
// this.
std::string presence_prefix(std::string_view sink) {
  return fmt::format("s3:{}:node=", sink);
}
std::string presence_key(std::string_view sink, std::string_view instance) {
  return presence_prefix(sink) + percent_encode_name(instance);
}

}  // namespace queen::sink
