// Files and directories of the disk in memory, as they are and as the last sync left them.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "disk/ram_disk.h"

namespace queen::disk {

inline constexpr std::size_t kRamSectorBytes = 512;

struct RamDisk::Inode {
  Bytes now;
  Bytes durable;
  std::size_t dirty_from = std::numeric_limits<std::size_t>::max();  // of `now`, since the last sync
  std::size_t dirty_to = 0;

  void mark(std::size_t from, std::size_t to) {
    dirty_from = std::min(dirty_from, from);
    dirty_to = std::max(dirty_to, to);
  }
  void make_clean() {
    dirty_from = std::numeric_limits<std::size_t>::max();
    dirty_to = 0;
  }
  // Copies only what changed, so that many small syncs of a long file stay cheap.
  void sync() {
    durable.resize(now.size());
    const std::size_t to = std::min(dirty_to, now.size());
    if (dirty_from < to) durable.replace(dirty_from, to - dirty_from, now, dirty_from, to - dirty_from);
    make_clean();
  }
  void lose() {
    now = durable;
    make_clean();
  }
  void tear(Random& random) {
    Bytes kept = durable;
    if (random.next() % 2 == 0) kept.resize(now.size());
    const std::size_t to = std::min({dirty_to, now.size(), kept.size()});
    for (std::size_t at = dirty_from / kRamSectorBytes * kRamSectorBytes; at < to; at += kRamSectorBytes) {
      const std::size_t size = std::min(kRamSectorBytes, to - at);
      if (random.next() % 2 == 0) kept.replace(at, size, now, at, size);
    }
    now = durable = std::move(kept);
    make_clean();
  }
  // Everything before some byte of what was written since the last sync, nothing behind it.
  void tear_at_a_byte(Random& random) {
    Bytes kept = durable;
    if (dirty_from < dirty_to) {
      std::size_t cut = dirty_from + random.next() % (dirty_to - dirty_from + 1);
      cut = std::min(cut, now.size());
      if (kept.size() < cut) kept.resize(cut);
      if (dirty_from < cut) kept.replace(dirty_from, cut - dirty_from, now, dirty_from, cut - dirty_from);
    }
    now = durable = std::move(kept);
    make_clean();
  }
};

struct RamDisk::Directory {
  struct Entry {
    std::shared_ptr<Inode> file;  // exactly one of the two is set
    std::shared_ptr<Directory> directory;
  };
  // What one call did to names; an entry with nothing in it: the name went away.
  using Change = std::vector<std::pair<std::string, Entry>>;

  std::map<std::string, Entry> now, durable;
  std::vector<Change> since_sync;

  static void run(const Change& change, std::map<std::string, Entry>& names) {
    for (const auto& [name, entry] : change) {
      if (entry.file || entry.directory) {
        names.insert_or_assign(name, entry);
      } else {
        names.erase(name);
      }
    }
  }
  void change(Change change) {
    run(change, now);
    since_sync.push_back(std::move(change));
  }
  void sync() {
    durable = now;
    since_sync.clear();
  }
};

// A copy in which everything that was one file or directory is one again.
struct RamDisk::Copy {
  std::map<const Inode*, std::shared_ptr<Inode>> files;
  std::map<const Directory*, std::shared_ptr<Directory>> directories;

  Directory::Entry of(const Directory::Entry& entry) {
    return {entry.file ? of(entry.file) : nullptr, entry.directory ? of(entry.directory) : nullptr};
  }
  std::shared_ptr<Inode> of(const std::shared_ptr<Inode>& file) {
    auto& copy = files[file.get()];
    if (!copy) copy = std::make_shared<Inode>(*file);
    return copy;
  }
  std::shared_ptr<Directory> of(const std::shared_ptr<Directory>& directory) {
    if (const auto known = directories.find(directory.get()); known != directories.end())
      return known->second;
    const auto copy = std::make_shared<Directory>();
    directories.emplace(directory.get(), copy);
    for (const auto& [name, entry] : directory->now) copy->now.emplace(name, of(entry));
    for (const auto& [name, entry] : directory->durable) copy->durable.emplace(name, of(entry));
    for (const auto& change : directory->since_sync) {
      auto& same = copy->since_sync.emplace_back();
      for (const auto& [name, entry] : change) same.emplace_back(name, of(entry));
    }
    return copy;
  }
};

}  // namespace queen::disk
