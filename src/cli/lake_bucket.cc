#include "cli/lake_bucket.h"

#include <charconv>
#include <future>

#include "base/text.h"

namespace queen::cli {
namespace {

constexpr std::uint64_t kManifestBytesMax = 512ULL << 20;
constexpr int kPage = 1000;

template <class T, class Begin>
s3::Outcome<T> wait_for(const Begin& begin) {
  std::promise<s3::Outcome<T>> promise;
  auto future = promise.get_future();
  begin([&promise](s3::Outcome<T> outcome) { promise.set_value(std::move(outcome)); });
  return future.get();
}

Error unavailable(const s3::S3Error& error) {
  return Error{Errc::unavailable, error.sentence};
}

}  // namespace

Result<std::optional<Bytes>> LakeBucket::get(const std::string& key, std::uint64_t bytes_max) {
  auto outcome =
      wait_for<std::optional<Bytes>>([&](auto done) { store_.get(key, bytes_max, std::move(done)); });
  if (outcome.ok()) return *std::move(outcome.value);
  if (outcome.error->failure == s3::Failure::body)
    return Error{Errc::corrupt, "it is larger than " + std::to_string(bytes_max) + " bytes"};
  return unavailable(*outcome.error);
}

Result<std::optional<sink::Manifest>> LakeBucket::manifest(std::uint64_t k) {
  auto bytes = get(sink::manifest_key(path_, k), kManifestBytesMax);
  if (!bytes) return std::move(bytes).error();
  if (!*bytes) return std::optional<sink::Manifest>();
  auto manifest = sink::parse_manifest(**bytes);
  if (!manifest) return std::move(manifest).error();
  return std::optional(*std::move(manifest));
}

Result<std::optional<std::uint64_t>> LakeBucket::window_above(std::uint64_t k) {
  const std::string key = sink::manifest_key(path_, k);
  const std::string prefix = key.substr(0, key.rfind('/') + 1);
  auto listing = wait_for<s3::Listing>([&](auto done) { store_.list(prefix, key, 1, std::move(done)); });
  if (!listing.ok()) return unavailable(*listing.error);
  if (listing.value->keys.empty()) return std::optional<std::uint64_t>();
  const std::string& found = listing.value->keys.front();
  std::uint64_t number = 0;
  const char* begin = found.data() + prefix.size();
  const auto [end, failure] = std::from_chars(begin, found.data() + found.size(), number);
  if (failure != std::errc{} || found != sink::manifest_key(path_, number))
    return std::optional<std::uint64_t>();  // nothing that the sink writes
  return std::optional(number);
}

Result<s3::Listing> LakeBucket::data_keys(const std::string& start_after) {
  const std::string any = sink::data_key(path_, sink::Align::hour, {}, "");
  const std::string prefix = any.substr(0, any.find("/dt=") + 1);
  auto listing =
      wait_for<s3::Listing>([&](auto done) { store_.list(prefix, start_after, kPage, std::move(done)); });
  if (!listing.ok()) return unavailable(*listing.error);
  return *std::move(listing.value);
}

std::optional<std::uint64_t> window_of_key(std::string_view key) {
  const auto at = key.rfind("/w-");
  if (at == std::string_view::npos) return std::nullopt;
  std::uint64_t k = 0;
  const auto [end, failure] = std::from_chars(key.data() + at + 3, key.data() + key.size(), k);
  const bool dash = end != key.data() + key.size() && *end == '-';
  if (failure != std::errc{} || !dash) return std::nullopt;
  return k;
}

}  // namespace queen::cli
