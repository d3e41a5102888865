// A disk whose syncs can be held, and which can be out of descriptors: for tests of what must wait for
// either, and what must not.
#pragma once

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "disk/disk.h"

namespace queen::disk {

// Thread-safe. While the gate is shut, sync() of files whose path ends in `.qlog` waits; everything else goes
// on. Outlives the disk and its files.
class SyncGate {
 public:
  void shut() {
    const std::lock_guard held(mutex_);
    open_ = false;
  }
  void open() {
    const std::lock_guard held(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Writes to log files so far.
  std::size_t writes() {
    const std::lock_guard held(mutex_);
    return writes_;
  }
  // False when the writes did not come to be `count` within ten seconds.
  bool wait_for_writes(std::size_t count) {
    std::unique_lock held(mutex_);
    return changed_.wait_for(held, std::chrono::seconds(10), [&] { return writes_ >= count; });
  }
  void wrote() {
    const std::lock_guard held(mutex_);
    ++writes_;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock held(mutex_);
    changed_.wait(held, [this] { return open_; });
  }
  // From now on no log file can be opened and no directory synced, until they are given back.
  void take_descriptors() {
    const std::lock_guard held(mutex_);
    descriptors_ = false;
  }
  void give_descriptors() {
    const std::lock_guard held(mutex_);
    descriptors_ = true;
  }
  bool has_descriptors() {
    const std::lock_guard held(mutex_);
    if (!descriptors_) ++refused_;
    return descriptors_;
  }
  // Calls that found none.
  std::size_t refused() {
    const std::lock_guard held(mutex_);
    return refused_;
  }

 private:
  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  bool open_ = true, descriptors_ = true;
  std::size_t writes_ = 0, refused_ = 0;
};

class GatedDisk final : public Disk {
 public:
  GatedDisk(Disk& under, SyncGate& gate) : under_(under), gate_(gate) {}

  Result<std::unique_ptr<File>> open(const std::string& path, Open mode) override {
    if (!path.ends_with(".qlog")) return under_.open(path, mode);
    if (!gate_.has_descriptors()) return out_of_descriptors();
    auto file = under_.open(path, mode);
    if (!file) return file;
    return std::unique_ptr<File>(std::make_unique<GatedFile>(std::move(*file), gate_));
  }
  Result<std::unique_ptr<Mapping>> map(const std::string& path) override { return under_.map(path); }
  Result<bool> exists(const std::string& path) override { return under_.exists(path); }
  Result<std::vector<DirEntry>> list(const std::string& path) override { return under_.list(path); }
  Status make_dirs(const std::string& path) override { return under_.make_dirs(path); }
  Status rename(const std::string& from, const std::string& to) override { return under_.rename(from, to); }
  Status remove_file(const std::string& path) override { return under_.remove_file(path); }
  Status remove_dir(const std::string& path) override { return under_.remove_dir(path); }
  Status sync_dir(const std::string& path) override {
    if (!gate_.has_descriptors()) return out_of_descriptors();
    return under_.sync_dir(path);
  }
  Result<VolumeUse> volume(const std::string& path) override { return under_.volume(path); }
  Result<std::unique_ptr<LockHeld>> lock(const std::string& path) override { return under_.lock(path); }

 private:
  static Error out_of_descriptors() { return {Errc::unavailable, "open: too many open files", EMFILE}; }

  class GatedFile final : public File {
   public:
    GatedFile(std::unique_ptr<File> under, SyncGate& gate) : under_(std::move(under)), gate_(gate) {}
    Result<std::size_t> pread(std::uint64_t offset, std::span<char> into) override {
      return under_->pread(offset, into);
    }
    Status pwrite(std::uint64_t offset, BytesView bytes) override {
      auto done = under_->pwrite(offset, bytes);
      gate_.wrote();
      return done;
    }
    Status sync() override {
      gate_.pass();
      return under_->sync();
    }
    Result<std::uint64_t> size() override { return under_->size(); }
    Status truncate(std::uint64_t size) override { return under_->truncate(size); }

   private:
    std::unique_ptr<File> under_;
    SyncGate& gate_;
  };

  Disk& under_;
  SyncGate& gate_;
};

}  // namespace queen::disk
