#include "offline.h"

#include <algorithm>
#include <filesystem>

#include "base/invariant.h"

namespace queen::sim {
namespace {

// A disk below another root, to look at only: whoever verifies changes nothing.
class LookedAt final : public disk::Disk {
 public:
  LookedAt(disk::Disk& disk, std::string root) : disk_(disk), root_(std::move(root)) {}

  Result<std::unique_ptr<disk::File>> open(const std::string& path, disk::Open mode) override {
    if (mode != disk::Open::read) return refused(path);
    return disk_.open(inner(path), mode);
  }
  Result<bool> exists(const std::string& path) override { return disk_.exists(inner(path)); }
  Result<std::vector<disk::DirEntry>> list(const std::string& path) override {
    return disk_.list(inner(path));
  }
  Result<disk::VolumeUse> volume(const std::string& path) override { return disk_.volume(inner(path)); }
  Status make_dirs(const std::string& path) override { return refused(path); }
  Status rename(const std::string& from, const std::string& /*to*/) override { return refused(from); }
  Status remove_file(const std::string& path) override { return refused(path); }
  Status remove_dir(const std::string& path) override { return refused(path); }
  Status sync_dir(const std::string& path) override { return refused(path); }
  Result<std::unique_ptr<disk::LockHeld>> lock(const std::string& path) override { return refused(path); }

 private:
  static Error refused(const std::string& path) {
    return {Errc::unavailable, path + ": a check changes nothing"};
  }
  std::string inner(const std::string& path) const {
    INVARIANT(path.starts_with(root_), "a path outside of the directory");
    return path.substr(root_.size());
  }

  disk::Disk& disk_;
  const std::string root_;
};

}  // namespace

std::optional<cli::VerifyReport> verify_offline(const disk::RamDisk& disk, const StoreHome& home,
                                                Clock& clock) {
  const std::string directory = home.real(kDataDirectory);
  if (!std::filesystem::is_directory(directory + "/store")) return std::nullopt;
  // What is to fail on the disk of the node is not for whoever looks at it.
  const auto still = disk.copy();
  LookedAt looked(*still, home.real(""));
  auto report = cli::verify_directory(looked, directory, clock, {null_log(), "verify"});
  INVARIANT(report.has_value(), "the directory cannot be verified: {}", report.error().what);
  return std::move(*report);
}

void expect_sound(Story& story, const disk::RamDisk& disk, const StoreHome& home, Clock& clock,
                  std::string_view when) {
  const auto report = verify_offline(disk, home, clock);
  if (!report) return;
  story.note("verify", "{}: {} findings, entry {} the last of {} logs", when, report->findings.size(),
             report->logs.last_index, report->logs.logs);
  for (const auto& found : report->findings)
    if (found.severity == Severity::damage || found.boot == Boot::refused)
      return story.violate("nothing that a node made is damaged", "{}: {} {}", when, found.rule, found.what);
}

}  // namespace queen::sim
