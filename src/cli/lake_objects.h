// The checks of one window's objects against its manifest (docs/formats/bucket.md, docs/formats/lake.md).
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "cli/lake_bucket.h"
#include "cli/lake_findings.h"
#include "lake/record_reader.h"
#include "sink/manifest.h"

namespace queen::cli {

// What `manifest` says it is written as, when that is something this build can read.
std::optional<lake::Kind> kind_of(const sink::Manifest& manifest);

class LakeObjects {
 public:
  // Gets every record that can be read, in the order of the objects. An error ends the check of the window.
  using EachRecord = std::function<Status(const lake::ReadRecord& record)>;

  // `align` is nothing when it is not known: then keys of every alignment are right.
  LakeObjects(LakeBucket& bucket, std::optional<sink::Align> align, LakeFindings& findings)
      : bucket_(bucket), align_(align), findings_(findings) {}

  // Keys, sums, bytes, order and bounds of one window. Holds one object at a time. Errors: unavailable, and
  // what `each` gives.
  Status check(const sink::Manifest& manifest, const EachRecord& each);

 private:
  struct Totals {  // over the records of a window
    std::set<std::string> partitions;
    std::optional<std::int64_t> min_ts, max_ts;
    std::optional<lake::ReadRecord> before;
    std::uint64_t records = 0;
    bool whole = true;  // every object could be read
  };
  void check_list(const sink::Manifest& manifest, lake::Kind kind);
  bool right_key(const sink::Manifest& manifest, const sink::ManifestObject& object, lake::Kind kind) const;
  Status check_object(const sink::Manifest& manifest, const sink::ManifestObject& object, Totals& totals,
                      const EachRecord& each);
  Status read(const sink::Manifest& manifest, const sink::ManifestObject& object, BytesView bytes,
              Totals& totals, const EachRecord& each);
  void check_record(const sink::Manifest& manifest, const sink::ManifestObject& object,
                    const lake::ReadRecord& record, Totals& totals);
  void check_totals(const sink::Manifest& manifest, const Totals& totals);
  void tell(const char* reason, const sink::Manifest& manifest, const std::string& key, std::string what);
  void tell(const char* reason, const sink::Manifest& manifest, const lake::ReadRecord& record,
            std::string what);

  LakeBucket& bucket_;
  const std::optional<sink::Align> align_;
  LakeFindings& findings_;
};

}  // namespace queen::cli
