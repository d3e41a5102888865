// Turns a closed window into the objects that go to the bucket (s3-sink.md 14, 15). Pure: the same plan,
// format and build give the same keys and bytes.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "sink/documents.h"
#include "sink/manifest.h"
#include "sink/window_plan.h"

namespace queen::sink {

// What `work` gives, or `unavailable` when a library throws under it (for lack of memory, mostly): it costs
// the run of one queue, not the process.
template <class Work>
auto guarded(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& thrown) {
    return Error{Errc::unavailable, std::string("the object cannot be built: ") + thrown.what()};
  }
}

struct BuiltObject {
  ManifestObject entry;  // key, sizes, digest
  std::string content_type;
  std::shared_ptr<const Bytes> body;  // shared with the upload, which may outlive the caller's wait
};

// Objects of a plan: one under layout merged, one per partition otherwise. They are built one at a time, so
// that memory holds one object besides the plan.
std::size_t object_count(const WindowPlan& plan, Layout layout);
// What an object is besides its records.
struct ObjectFrame {
  WindowFormat format;
  LakePath path;
  Align align = Align::hour;
  std::string product_version;  // for formats that name it inside the object
};
// Object `index` (below object_count) in key order of the partitions. Errors: invalid, naming partition and
// offset that the writer refuses. Costs the time of compressing the object; no I/O.
Result<BuiltObject> build_object(const WindowPlan& plan, std::size_t index, const ObjectFrame& frame);
// The manifest of the plan with `objects` as built, in order.
Manifest make_manifest(const WindowPlan& plan, std::vector<ManifestObject> objects,
                       const WindowFormat& format, std::string sink, const LakePath& path, std::string writer,
                       std::int64_t committed_at_us);

}  // namespace queen::sink
