// The steps that make a window real: intent, objects, manifest, commit pointer, checkpoint (s3-sink.md 10,
// 11). Each repeats its step in place while the failure may pass, and gives the reason when the run has to
// end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sink/manifest.h"
#include "sink/object_builder.h"
#include "sink/restore.h"
#include "sink/sink_world.h"
#include "sink/window_engine.h"

namespace queen::sink {

// Of one run of a queue. On the sink's executor; one step at a time.
class CommitSequence {
 public:
  CommitSequence(QueueContext& context, Lease& lease) : context_(context), lease_(lease) {}
  void restored(const Restored& restored);
  // A finished upload stands in for the upload step.
  void adopt(const Manifest& manifest);

  Task<std::optional<RunStop>> write_intent(WindowBounds bounds);
  // Builds and uploads the window, or adopts a finished upload that turned up meanwhile: `adopted` says
  // which.
  Task<std::optional<RunStop>> upload(UploadAction action, bool& adopted);
  Task<std::optional<RunStop>> commit(CommitAction action);
  // After the engine knows of the commit: counters and log lines.
  void committed(const EngineStatus& status);
  Task<std::optional<RunStop>> write_checkpoint(Checkpoint checkpoint);

  // Ends the process here when the settings ask for it; true when a test's hook came back.
  bool crash_here(CrashPoint point);
  // Why this build cannot redo the intent; nothing when it can.
  std::optional<RunStop> refuse_redo(const Intent& intent) const;

 private:
  // An upload that is complete in the bucket.
  struct Finished {
    std::string manifest;
    lake::Format format = lake::Format::jsonl;
    std::uint64_t records = 0, bytes = 0;
    std::vector<LostRange> lost;
  };
  Task<tl::expected<std::uint64_t, RunStop>> fenced_put(const char* what, std::string key, std::string value,
                                                        std::uint64_t expect);
  Task<std::optional<RunStop>> put_objects(UploadAction action, WindowFormat format);
  Task<std::optional<RunStop>> put_manifest(UploadAction action, WindowFormat format,
                                            std::vector<ManifestObject> objects);
  Task<std::optional<RunStop>> put_until_done(std::string key, std::shared_ptr<const Bytes> body,
                                              std::string content_type);
  Task<Result<BuiltObject>> build(std::shared_ptr<const WindowPlan> plan, std::size_t index,
                                  WindowFormat format);
  WindowFormat running_format() const {
    return {.kind = context_.world.unit.kind, .layout = context_.world.unit.layout};
  }

  QueueContext& context_;
  Lease& lease_;
  std::uint64_t committed_version_ = 0;
  std::uint64_t intent_version_ = 0;
  std::optional<Finished> finished_;
  std::optional<std::uint64_t> checkpoint_k_;
};

}  // namespace queen::sink
