// A disk that counts what is open and mapped, refuses above a limit, and notes the hints it is given.
#pragma once

#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "disk/ram_disk.h"

namespace queen::qlog {

// What happened, shared by the disk and what it opened. One thread.
struct Watch {
  std::size_t open = 0, open_highest = 0;
  std::size_t open_max = SIZE_MAX;  // EMFILE from here on
  std::size_t mapped = 0, maps = 0;
  std::map<std::string, std::size_t> let_go;  // times the pages of a mapping were given back
  std::size_t mapped_max = SIZE_MAX;          // ENOMEM from here on
  std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t>> fetched, dropped;  // path, offset, bytes
  std::map<std::string, std::uint64_t> synced;  // length at the last sync
  std::set<std::string> opened_to_write;
  std::function<void(const std::string&)> on_read = [](const std::string&) {};
};

class WatchedFile final : public disk::File {
 public:
  WatchedFile(std::unique_ptr<disk::File> file, Watch& watch, std::string path)
      : file_(std::move(file)), watch_(watch), path_(std::move(path)) {
    watch_.open_highest = std::max(watch_.open_highest, ++watch_.open);
  }
  ~WatchedFile() override { --watch_.open; }
  Result<std::size_t> pread(std::uint64_t offset, std::span<char> into) override {
    watch_.on_read(path_);
    return file_->pread(offset, into);
  }
  Status pwrite(std::uint64_t offset, BytesView bytes) override { return file_->pwrite(offset, bytes); }
  Status sync() override {
    watch_.synced[path_] = file_->size().value_or(0);
    return file_->sync();
  }
  Result<std::uint64_t> size() override { return file_->size(); }
  Status truncate(std::uint64_t size) override { return file_->truncate(size); }
  void read_ahead(std::uint64_t offset, std::uint64_t bytes) override {
    watch_.fetched.emplace_back(path_, offset, bytes);
  }
  void drop_cache(std::uint64_t offset, std::uint64_t bytes) override {
    watch_.dropped.emplace_back(path_, offset, bytes);
  }

 private:
  std::unique_ptr<disk::File> file_;
  Watch& watch_;
  std::string path_;
};

class WatchedMapping final : public disk::Mapping {
 public:
  WatchedMapping(std::unique_ptr<disk::Mapping> mapping, Watch& watch)
      : mapping_(std::move(mapping)), watch_(watch) {
    ++watch_.mapped;
    ++watch_.maps;
  }
  ~WatchedMapping() override { --watch_.mapped; }
  BytesView bytes() const override { return mapping_->bytes(); }
  const char* path() const override { return mapping_->path(); }
  void let_go() const override { ++watch_.let_go[mapping_->path()]; }

 private:
  std::unique_ptr<disk::Mapping> mapping_;
  Watch& watch_;
};

class WatchedDisk final : public disk::Disk {
 public:
  explicit WatchedDisk(disk::Disk& under) : under_(under) {}
  Watch watch;

  Result<std::unique_ptr<disk::File>> open(const std::string& path, disk::Open mode) override {
    if (watch.open >= watch.open_max) return Error{Errc::unavailable, path + ": too many open files", EMFILE};
    auto file = under_.open(path, mode);
    if (!file) return file;
    if (mode != disk::Open::read) watch.opened_to_write.insert(path);
    return std::unique_ptr<disk::File>(std::make_unique<WatchedFile>(std::move(*file), watch, path));
  }
  Result<std::unique_ptr<disk::Mapping>> map(const std::string& path) override {
    if (watch.mapped >= watch.mapped_max) return Error{Errc::full, path + ": no more maps", ENOMEM};
    auto mapping = under_.map(path);
    if (!mapping) return mapping;
    return std::unique_ptr<disk::Mapping>(std::make_unique<WatchedMapping>(std::move(*mapping), watch));
  }
  Result<bool> exists(const std::string& path) override { return under_.exists(path); }
  Result<std::vector<disk::DirEntry>> list(const std::string& path) override { return under_.list(path); }
  Status make_dirs(const std::string& path) override { return under_.make_dirs(path); }
  Status rename(const std::string& from, const std::string& to) override { return under_.rename(from, to); }
  Status remove_file(const std::string& path) override { return under_.remove_file(path); }
  Status remove_dir(const std::string& path) override { return under_.remove_dir(path); }
  Status sync_dir(const std::string& path) override { return under_.sync_dir(path); }
  Result<disk::VolumeUse> volume(const std::string& path) override { return under_.volume(path); }
  Result<std::unique_ptr<disk::LockHeld>> lock(const std::string& path) override { return under_.lock(path); }

 private:
  disk::Disk& under_;
};

}  // namespace queen::qlog
