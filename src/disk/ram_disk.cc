#include "disk/ram_disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "disk/detail/ram_inode.h"

namespace queen::disk {
namespace {

constexpr std::uint64_t kVolumeBytes = 1ULL << 40;

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (end > at && path.substr(at, end - at) != ".") parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

struct RamDisk::State {
  struct Failure {
    std::uint64_t left;
    Error error;
  };

  mutable std::mutex mutex;  // guards everything below
  std::shared_ptr<Directory> root = std::make_shared<Directory>();
  std::multimap<RamOp, Failure> failures;
  std::optional<Failure> half_written;
  std::optional<std::uint64_t> changes_left;
  std::uint64_t changes = 0;
  std::optional<std::uint64_t> capacity;
  std::uint64_t epoch = 0;  // of the power: files opened before a crash are dead
  std::set<std::string> locks;
  std::function<void()> before_change;  // set before the disk is used; called without the mutex
  std::function<void(RamOp)> on_call;   // likewise, but called with it

  void look() const {
    if (before_change) before_change();
  }

  enum class Kind : bool { look, change };

  Status enter(RamOp op, Kind kind, const std::string& path) {
    if (on_call) on_call(op);
    if (changes_left == 0U) return Error{Errc::unavailable, path + ": the power is off", EIO};
    for (auto [it, end] = failures.equal_range(op); it != end;) {
      if (--it->second.left > 0) {
        ++it;
        continue;
      }
      Error error = std::move(it->second.error);
      failures.erase(it);
      return error;
    }
    if (kind == Kind::look) return {};
    ++changes;
    if (changes_left) --*changes_left;
    return {};
  }

  // What ends this write after half of its bytes.
  std::optional<Error> write_ends_halfway() {
    if (!half_written || --half_written->left > 0) return std::nullopt;
    Error error = std::move(half_written->error);
    half_written.reset();
    return error;
  }

  std::shared_ptr<Directory> walk(const std::vector<std::string>& parts, std::size_t count) const {
    auto at = root;
    for (std::size_t i = 0; i < count && at; ++i) {
      const auto found = at->now.find(parts[i]);
      at = found == at->now.end() ? nullptr : found->second.directory;
    }
    return at;
  }
  std::shared_ptr<Directory> parent(const std::vector<std::string>& parts) const {
    return parts.empty() ? nullptr : walk(parts, parts.size() - 1);
  }
  Directory::Entry* find(const std::string& path) const {
    const auto parts = split(path);
    const auto directory = parent(parts);
    if (!directory) return nullptr;
    const auto found = directory->now.find(parts.back());
    return found == directory->now.end() ? nullptr : &found->second;
  }

  template <class Visit>
  static void each_file(const Directory& directory, const std::string& path, const Visit& visit) {
    for (const auto& [name, entry] : directory.now) {
      const std::string full = path + "/" + name;
      if (entry.file) visit(full, *entry.file);
      if (entry.directory) each_file(*entry.directory, full, visit);
    }
  }
  std::uint64_t used() const {
    std::uint64_t bytes = 0;
    each_file(*root, "", [&](const std::string&, const Inode& file) { bytes += file.now.size(); });
    return bytes;
  }
  std::uint64_t free_bytes() const {
    const std::uint64_t total = capacity.value_or(kVolumeBytes);
    const std::uint64_t in_use = used();
    return in_use < total ? total - in_use : 0;
  }

  // `names` decides which changes of names come before the durable ones are looked at.
  template <class Names, class Settle>
  static void back_to_durable(Directory& directory, const Names& names, const Settle& settle) {
    names(directory);
    directory.now = directory.durable;
    directory.since_sync.clear();
    for (auto& [name, entry] : directory.now) {
      if (entry.file) settle(*entry.file);
      if (entry.directory) back_to_durable(*entry.directory, names, settle);
    }
  }
  template <class Settle>
  void crash(const Settle& settle) {
    crash([](Directory&) {}, settle);
  }
  template <class Names, class Settle>
  void crash(const Names& names, const Settle& settle) {
    const std::lock_guard held(mutex);
    back_to_durable(*root, names, settle);
    ++epoch;
    changes_left.reset();
    failures.clear();
    half_written.reset();
    locks.clear();
  }
};

namespace {

using State = RamDisk::State;

Error no_such(const std::string& path) {
  return {Errc::not_found, path + ": no such file or directory", ENOENT};
}

class RamFile final : public File {
 public:
  RamFile(std::shared_ptr<State> state, std::shared_ptr<RamDisk::Inode> inode, std::string path)
      : state_(std::move(state)), inode_(std::move(inode)), path_(std::move(path)), epoch_(state_->epoch) {}

  Result<std::size_t> pread(std::uint64_t offset, std::span<char> into) override {
    const std::lock_guard held(state_->mutex);
    if (auto ok = enter(RamOp::pread, State::Kind::look); !ok) return std::move(ok).error();
    if (offset >= inode_->now.size()) return std::size_t{0};
    return inode_->now.copy(into.data(), into.size(), offset);
  }

  Status pwrite(std::uint64_t offset, BytesView bytes) override {
    state_->look();
    const std::lock_guard held(state_->mutex);
    if (auto ok = enter(RamOp::pwrite, State::Kind::change); !ok) return ok;
    const std::size_t wanted = offset + bytes.size();
    std::size_t end = wanted;
    std::optional<Error> halfway = state_->write_ends_halfway();
    if (halfway) end = offset + bytes.size() / 2;
    if (state_->capacity && end > inode_->now.size())
      end = std::min<std::size_t>(end, inode_->now.size() + state_->free_bytes());
    if (inode_->now.size() < end) inode_->now.resize(end);
    if (end > offset) {
      inode_->now.replace(offset, end - offset, bytes.substr(0, end - offset));
      inode_->mark(offset, end);
    }
    if (halfway) return *std::move(halfway);
    if (end < wanted) return Error{Errc::full, "pwrite " + path_ + ": no space left on device", ENOSPC};
    return {};
  }

  Status sync() override {
    state_->look();
    const std::lock_guard held(state_->mutex);
    if (auto ok = enter(RamOp::sync, State::Kind::change); !ok) return ok;
    inode_->sync();
    return {};
  }

  Result<std::uint64_t> size() override {
    const std::lock_guard held(state_->mutex);
    if (auto ok = enter(RamOp::size, State::Kind::look); !ok) return std::move(ok).error();
    return std::uint64_t{inode_->now.size()};
  }

  Status truncate(std::uint64_t size) override {
    state_->look();
    const std::lock_guard held(state_->mutex);
    if (auto ok = enter(RamOp::truncate, State::Kind::change); !ok) return ok;
    const std::size_t before = inode_->now.size();
    inode_->now.resize(size);
    // Bytes cut and grown again are zeros now, whatever the durable image holds there.
    inode_->mark(std::min<std::size_t>(before, size), std::max<std::size_t>(before, size));
    return {};
  }

 private:
  Status enter(RamOp op, State::Kind kind) {
    if (epoch_ != state_->epoch) return Error{Errc::unavailable, path_ + ": opened before the crash", EIO};
    return state_->enter(op, kind, path_);
  }

  std::shared_ptr<State> state_;  // the disk's; shared so that an open file may outlive it
  std::shared_ptr<RamDisk::Inode> inode_;
  std::string path_;
  std::uint64_t epoch_;
};

class RamLock final : public LockHeld {
 public:
  RamLock(std::shared_ptr<State> state, std::string path)
      : state_(std::move(state)), path_(std::move(path)), epoch_(state_->epoch) {}
  ~RamLock() override {
    const std::lock_guard held(state_->mutex);
    if (epoch_ == state_->epoch) state_->locks.erase(path_);
  }

 private:
  std::shared_ptr<State> state_;
  std::string path_;
  std::uint64_t epoch_;
};

}  // namespace

RamDisk::RamDisk() : state_(std::make_shared<State>()) {}
RamDisk::~RamDisk() = default;

Result<std::unique_ptr<File>> RamDisk::open(const std::string& path, Open mode) {
  if (mode == Open::create || mode == Open::create_new) state_->look();
  const std::lock_guard held(state_->mutex);
  const auto* there = state_->find(path);
  const bool creates = mode == Open::create || mode == Open::create_new;
  const auto kind = creates && there == nullptr ? State::Kind::change : State::Kind::look;
  if (auto ok = state_->enter(RamOp::open, kind, path); !ok) return std::move(ok).error();
  if (there != nullptr && mode == Open::create_new)
    return Error{Errc::conflict, path + ": file exists", EEXIST};
  if (there != nullptr && !there->file) return Error{Errc::unavailable, path + ": is a directory", EISDIR};
  if (there != nullptr) return std::unique_ptr<File>(std::make_unique<RamFile>(state_, there->file, path));
  const auto parts = split(path);
  const auto directory = state_->parent(parts);
  if (!creates || !directory) return no_such(path);
  auto inode = std::make_shared<Inode>();
  directory->change({{parts.back(), {inode, nullptr}}});
  return std::unique_ptr<File>(std::make_unique<RamFile>(state_, std::move(inode), path));
}

Result<bool> RamDisk::exists(const std::string& path) {
  const std::lock_guard held(state_->mutex);
  if (state_->changes_left == 0U) return Error{Errc::unavailable, path + ": the power is off", EIO};
  return split(path).empty() || state_->find(path) != nullptr;
}

Result<std::vector<DirEntry>> RamDisk::list(const std::string& path) {
  const std::lock_guard held(state_->mutex);
  if (auto ok = state_->enter(RamOp::list, State::Kind::look, path); !ok) return std::move(ok).error();
  const auto parts = split(path);
  const auto directory = state_->walk(parts, parts.size());
  if (!directory) return no_such(path);
  std::vector<DirEntry> entries;
  for (const auto& [name, entry] : directory->now) entries.push_back({name, entry.directory != nullptr});
  return entries;
}

Status RamDisk::make_dirs(const std::string& path) {
  state_->look();
  const std::lock_guard held(state_->mutex);
  if (auto ok = state_->enter(RamOp::make_dirs, State::Kind::change, path); !ok) return ok;
  auto at = state_->root;
  for (const auto& part : split(path)) {
    if (!at->now.contains(part)) at->change({{part, {nullptr, std::make_shared<Directory>()}}});
    const auto& entry = at->now.at(part);
    if (entry.file) return Error{Errc::unavailable, path + ": not a directory", ENOTDIR};
    at = entry.directory;
  }
  return {};
}

Status RamDisk::rename(const std::string& from, const std::string& to) {
  state_->look();
  const std::lock_guard held(state_->mutex);
  if (auto ok = state_->enter(RamOp::rename, State::Kind::change, from); !ok) return ok;
  const auto* source = state_->find(from);
  const auto target_parts = split(to);
  const auto target = state_->parent(target_parts);
  if (source == nullptr || !target) return no_such(from);
  const auto entry = *source;
  const auto source_parts = split(from);
  const auto origin = state_->parent(source_parts);
  if (origin == target) {
    target->change({{source_parts.back(), {}}, {target_parts.back(), entry}});
  } else {
    origin->change({{source_parts.back(), {}}});
    target->change({{target_parts.back(), entry}});
  }
  return {};
}

Status RamDisk::remove_file(const std::string& path) {
  state_->look();
  const std::lock_guard held(state_->mutex);
  if (auto ok = state_->enter(RamOp::remove_file, State::Kind::change, path); !ok) return ok;
  const auto* found = state_->find(path);
  if (found == nullptr) return no_such(path);
  if (!found->file) return Error{Errc::unavailable, path + ": is a directory", EISDIR};
  const auto parts = split(path);
  state_->parent(parts)->change({{parts.back(), {}}});
  return {};
}

Status RamDisk::remove_dir(const std::string& path) {
  state_->look();
  const std::lock_guard held(state_->mutex);
  if (auto ok = state_->enter(RamOp::remove_dir, State::Kind::change, path); !ok) return ok;
  const auto* found = state_->find(path);
  if (found == nullptr || !found->directory) return no_such(path);
  if (!found->directory->now.empty())
    return Error{Errc::unavailable, path + ": directory not empty", ENOTEMPTY};
  const auto parts = split(path);
  state_->parent(parts)->change({{parts.back(), {}}});
  return {};
}

Status RamDisk::sync_dir(const std::string& path) {
  state_->look();
  const std::lock_guard held(state_->mutex);
  if (auto ok = state_->enter(RamOp::sync_dir, State::Kind::change, path); !ok) return ok;
  const auto parts = split(path);
  const auto directory = state_->walk(parts, parts.size());
  if (!directory) return no_such(path);
  directory->sync();
  return {};
}

Result<VolumeUse> RamDisk::volume(const std::string& /*path*/) {
  const std::lock_guard held(state_->mutex);
  return VolumeUse{.total_bytes = state_->capacity.value_or(kVolumeBytes),
                   .free_bytes = state_->free_bytes()};
}

Result<std::unique_ptr<LockHeld>> RamDisk::lock(const std::string& path) {
  {
    const std::lock_guard held(state_->mutex);
    if (state_->locks.contains(path))
      return Error{Errc::busy, path + " is locked by another process", EWOULDBLOCK};
  }
  auto file = open(path, Open::create);
  if (!file) return std::move(file).error();
  const std::lock_guard held(state_->mutex);
  state_->locks.insert(path);
  return std::unique_ptr<LockHeld>(std::make_unique<RamLock>(state_, path));
}

void RamDisk::crash() {
  state_->crash([](Inode& file) { file.lose(); });
}

void RamDisk::crash_torn(Random& random) {
  state_->crash([&](Inode& file) { file.tear(random); });
}

void RamDisk::crash_any(Random& random) {
  const auto coin = [&random] { return random.next() % 2 == 0; };
  const auto names = [&](Directory& directory) {
    for (const auto& change : directory.since_sync)
      if (coin()) Directory::run(change, directory.durable);
  };
  state_->crash(names, [&](Inode& file) {
    if (coin()) {
      file.tear(random);
    } else {
      file.tear_at_a_byte(random);
    }
  });
}

std::unique_ptr<RamDisk> RamDisk::copy() const {
  const std::lock_guard held(state_->mutex);
  auto other = std::make_unique<RamDisk>();
  other->state_->root = Copy{}.of(state_->root);
  return other;
}

void RamDisk::before_change(std::function<void()> look) {
  state_->before_change = std::move(look);
}

void RamDisk::fail(RamOp op, std::uint64_t nth, Errc code, int sys_errno) {
  const std::lock_guard held(state_->mutex);
  state_->failures.emplace(op, State::Failure{nth, {code, "a failure asked for by the test", sys_errno}});
}

void RamDisk::fail_half_written(std::uint64_t nth, Errc code, int sys_errno) {
  const std::lock_guard held(state_->mutex);
  state_->half_written = State::Failure{nth, {code, "a failure asked for by the test, half way", sys_errno}};
}

void RamDisk::on_call(std::function<void(RamOp)> look) {
  state_->on_call = std::move(look);
}

std::size_t RamDisk::failures_left() const {
  const std::lock_guard held(state_->mutex);
  return state_->failures.size() + (state_->half_written ? 1 : 0);
}

void RamDisk::power_off_after(std::uint64_t count) {
  const std::lock_guard held(state_->mutex);
  state_->changes_left = count;
}

bool RamDisk::power_is_off() const {
  const std::lock_guard held(state_->mutex);
  return state_->changes_left == 0U;
}

std::optional<std::uint64_t> RamDisk::changes_left() const {
  const std::lock_guard held(state_->mutex);
  return state_->changes_left;
}

void RamDisk::forget_failures() {
  const std::lock_guard held(state_->mutex);
  state_->failures.clear();
  state_->half_written.reset();
}

std::uint64_t RamDisk::changes() const {
  const std::lock_guard held(state_->mutex);
  return state_->changes;
}

void RamDisk::set_free_bytes(std::optional<std::uint64_t> bytes) {
  const std::lock_guard held(state_->mutex);
  state_->capacity.reset();
  if (bytes) state_->capacity = state_->used() + *bytes;
}

std::map<std::string, Bytes> RamDisk::files() const {
  const std::lock_guard held(state_->mutex);
  std::map<std::string, Bytes> all;
  State::each_file(*state_->root, "",
                   [&](const std::string& path, const Inode& file) { all[path] = file.now; });
  return all;
}

}  // namespace queen::disk
