#include "cli/lake_verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/lake_compare.h"
#include "cli/lake_objects.h"
#include "cli/lake_positions.h"

namespace queen::cli {
namespace {

class Verification {
 public:
  Verification(LakeBucket& bucket, const LakeVerifyWhat& what)
      : bucket_(bucket),
        what_(what),
        objects_(bucket, what.align, report_.findings),
        positions_(report_.findings) {
    report_.path = bucket.path();
  }

  Result<LakeReport> run() {
    if (what_.log != nullptr)
      if (auto asked = ask_broker(); !asked) return asked.error();
    if (auto walked = walk(); !walked) return walked.error();
    check_pointer();
    if (auto looked = look_for_orphans(); !looked) return looked.error();
    if (compare_ && report_.begin)
      if (auto done = compare_->finish(positions_, *report_.begin, *report_.end); !done) return done.error();
    if (compare_) report_.compared = compare_->compared();
    if (report_.windows == 0 && !report_.findings.any() && !compare_)
      return Error{Errc::not_found, fmt::format("there is no window of queue {}: {} is not in the bucket",
                                                bucket_.path().queue, sink::manifest_key(bucket_.path(), 1))};
    return std::move(report_);
  }

 private:
  void tell(const char* reason, std::uint64_t k, std::string what) {
    report_.findings.add(
        {reason, k, sink::manifest_key(bucket_.path(), k), std::nullopt, std::nullopt, std::move(what)});
  }

  // The pointer before the partitions: what it covers is in the log that they show.
  Status ask_broker() {
    report_.with_broker = true;
    auto pointer = what_.log->committed(what_.sink);
    if (!pointer) return std::move(pointer).error();
    pointer_ = *std::move(pointer);
    report_.windows_committed = pointer_ ? pointer_->k : 0;
    auto partitions = what_.log->partitions();
    if (!partitions) return std::move(partitions).error();
    compare_.emplace(*what_.log, *std::move(partitions), report_.findings);
    positions_.on_made_again([this](const std::string& partition) { compare_->made_again(partition); });
    positions_.on_explained([this](const lake::ReadRecord& record, std::uint64_t from, std::uint64_t to) {
      if (explained_) explained_ = compare_->explained(k_, record, from, to);
    });
    return {};
  }

  Status walk() {
    for (k_ = 1; !what_.log || k_ <= report_.windows_committed; ++k_) {
      auto manifest = bucket_.manifest(k_);
      if (manifest && *manifest) {
        if (auto done = check_window(**manifest); !done) return done;
        continue;
      }
      if (!manifest && manifest.error().code != Errc::corrupt) return manifest.error();
      if (!manifest) {
        tell("manifest", k_, manifest.error().what);
        previous_end_.reset();
        continue;
      }
      const auto above = bucket_.window_above(k_);
      if (!above) return above.error();
      if (!*above && !what_.log) return {};
      const std::uint64_t next = std::max(above->value_or(report_.windows_committed + 1), k_ + 1);
      tell("numbering", k_, fmt::format("windows {} to {} are not there", k_, next - 1));
      previous_end_.reset();
      k_ = next - 1;
    }
    return {};
  }

  Status check_window(const sink::Manifest& manifest) {
    ++report_.windows;
    report_.objects += manifest.objects.size();
    report_.records += manifest.records;
    report_.bytes += manifest.bytes;
    report_.lost += sink::count_of(manifest.lost);
    if (!report_.begin) report_.begin = manifest.bounds.t_start;
    report_.end = std::max(report_.end.value_or(manifest.bounds.t_end), manifest.bounds.t_end);
    const sink::LakePath& path = bucket_.path();
    if (manifest.bounds.k != k_ || manifest.sink != what_.sink || manifest.tenant != path.tenant ||
        manifest.queue != path.queue)
      tell(
          "names", k_,
          fmt::format("it is window {} of sink {}, tenant {}, queue {}", manifest.bounds.k,
                      json_string(manifest.sink), json_string(manifest.tenant), json_string(manifest.queue)));
    check_tiling(manifest.bounds);
    previous_end_ = manifest.bounds.t_end;
    positions_.begin_window(manifest);
    auto done = objects_.check(manifest, [this](const lake::ReadRecord& record) { return see(record); });
    positions_.end_window();
    last_ = manifest;
    return done;
  }

  Status see(const lake::ReadRecord& record) {
    positions_.see(record);
    if (!explained_) return explained_;
    return compare_ ? compare_->see(k_, record) : Status{};
  }

  void check_tiling(const sink::WindowBounds& bounds) {
    if (bounds.t_start >= bounds.t_end)
      tell("tiling", k_, fmt::format("it starts at {} and ends at {}", bounds.t_start, bounds.t_end));
    const auto boundary = sink::next_boundary(what_.align.value_or(sink::Align::none), bounds.t_start);
    if (boundary && bounds.t_end > *boundary)
      tell("tiling", k_, fmt::format("it crosses {}", iso_micros(*boundary)));
    if (!previous_end_ || *previous_end_ == bounds.t_start) return;
    // Days begin at an hour, so that every stretch that may be stepped over ends at one.
    const sink::Align align = what_.align.value_or(sink::Align::hour);
    const bool stepped_over = bounds.t_start > *previous_end_ && align != sink::Align::none &&
                              sink::align_floor(align, bounds.t_start) == bounds.t_start;
    if (!stepped_over)
      tell("tiling", k_,
           fmt::format("it starts at {}, and the one before ended at {}", iso_micros(bounds.t_start),
                       iso_micros(*previous_end_)));
  }

  void check_pointer() {
    if (!pointer_ || !last_ || last_->bounds.k != pointer_->k) return;
    if (pointer_->t_end != last_->bounds.t_end || pointer_->records != last_->records ||
        pointer_->bytes != last_->bytes ||
        pointer_->manifest != sink::manifest_key(bucket_.path(), pointer_->k))
      tell("pointer", pointer_->k, "the broker's commit pointer says something else than the manifest");
  }

  // Reads manifests again in the order of the keys, so that no list of all keys is held. Objects above the
  // last window checked are those of one under way.
  Status look_for_orphans() {
    std::optional<sink::Manifest> manifest;
    for (std::string after;;) {
      auto page = bucket_.data_keys(after);
      if (!page) return std::move(page).error();
      for (const std::string& key : page->keys)
        if (auto done = check_named(key, manifest); !done) return done;
      if (!page->truncated || page->keys.empty()) return {};
      after = page->keys.back();
    }
  }

  Status check_named(const std::string& key, std::optional<sink::Manifest>& manifest) {
    const auto k = window_of_key(key);
    if (k && *k >= k_) return {};
    if (k && (!manifest || manifest->bounds.k != *k)) {
      auto read = bucket_.manifest(*k);
      if (!read && read.error().code != Errc::corrupt) return std::move(read).error();
      if (!read) return {};  // told of already
      manifest = *std::move(read);
    }
    const bool named = k && manifest && std::ranges::any_of(manifest->objects, [&](const auto& object) {
                         return object.key == key;
                       });
    if (!named)
      report_.findings.add(
          {"orphan", k.value_or(0), key, std::nullopt, std::nullopt, "no manifest names it"});
    return {};
  }

  LakeBucket& bucket_;
  const LakeVerifyWhat& what_;
  LakeReport report_;
  LakeObjects objects_;
  LakePositions positions_;
  std::optional<LakeCompare> compare_;
  std::optional<sink::Committed> pointer_;
  std::optional<sink::Manifest> last_;
  std::optional<std::int64_t> previous_end_;
  std::uint64_t k_ = 1;  // the window looked at; after the walk the first that was not
  Status explained_;
};

}  // namespace

Result<LakeReport> verify_lake(LakeBucket& bucket, const LakeVerifyWhat& what) {
  return Verification(bucket, what).run();
}

}  // namespace queen::cli
