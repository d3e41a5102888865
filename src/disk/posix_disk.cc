// Disk over the system calls of Linux. Every failure carries the errno and the path.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "disk/disk.h"

namespace queen::disk {
namespace {

constexpr mode_t kFileMode = 0640;
constexpr mode_t kDirectoryMode = 0750;

Errc code_of(int error) {
  switch (error) {
    case ENOENT:
      return Errc::not_found;
    case EEXIST:
      return Errc::conflict;
    case ENOSPC:
    case EDQUOT:
      return Errc::full;
    default:
      return Errc::unavailable;
  }
}

// Reads errno, so it is called before anything else that may set it.
Error failed(const char* call, const std::string& path) {
  const int error = errno;
  return {code_of(error), fmt::format("{} {}: {}", call, path, std::generic_category().message(error)),
          error};
}

class UniqueFd {
 public:
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&&) = delete;
  ~UniqueFd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

class PosixFile final : public File {
 public:
  PosixFile(UniqueFd fd, std::string path, std::int64_t sync_delay_us)
      : fd_(std::move(fd)), path_(std::move(path)), sync_delay_us_(sync_delay_us) {}

  Result<std::size_t> pread(std::uint64_t offset, std::span<char> into) override {
    std::size_t done = 0;
    while (done < into.size()) {
      const auto got =
          ::pread(fd_.get(), into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failed("pread", path_);
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  Status pwrite(std::uint64_t offset, BytesView bytes) override {
    while (!bytes.empty()) {
      const auto put = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return failed("pwrite", path_);
      bytes.remove_prefix(static_cast<std::size_t>(put));
      offset += static_cast<std::uint64_t>(put);
    }
    return {};
  }

  Status sync() override {
    if (sync_delay_us_ > 0) std::this_thread::sleep_for(std::chrono::microseconds(sync_delay_us_));
    if (::fdatasync(fd_.get()) != 0) return failed("fdatasync", path_);
    return {};
  }

  Result<std::uint64_t> size() override {
    struct stat about{};
    if (::fstat(fd_.get(), &about) != 0) return failed("fstat", path_);
    return static_cast<std::uint64_t>(about.st_size);
  }

  Status truncate(std::uint64_t size) override {
    if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) return failed("ftruncate", path_);
    return {};
  }

  Status allocate(std::uint64_t bytes) override {
    if (::fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes)) == 0) return {};
    if (errno == EOPNOTSUPP) return File::allocate(bytes);
    return failed("fallocate", path_);
  }

  void read_ahead(std::uint64_t offset, std::uint64_t bytes) override {
    advise(offset, bytes, POSIX_FADV_WILLNEED);
  }
  void drop_cache(std::uint64_t offset, std::uint64_t bytes) override {
    advise(offset, bytes, POSIX_FADV_DONTNEED);
  }

 private:
  void advise(std::uint64_t offset, std::uint64_t bytes, int advice) {
    // A file system that knows no advice is no failure.
    (void)::posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes), advice);
  }

  UniqueFd fd_;
  std::string path_;
  const std::int64_t sync_delay_us_;
};

class PosixMapping final : public Mapping {
 public:
  PosixMapping(void* at, std::size_t size, std::string path) : at_(at), size_(size), path_(std::move(path)) {}
  PosixMapping(const PosixMapping&) = delete;
  PosixMapping& operator=(const PosixMapping&) = delete;
  ~PosixMapping() override {
    if (size_ > 0) ::munmap(at_, size_);
  }
  BytesView bytes() const override { return {static_cast<const char*>(at_), size_}; }
  const char* path() const override { return path_.c_str(); }
  void let_go() const override {
    // The mapping is of a file and never written, so nothing is lost; where it is refused, nothing is gained.
    if (size_ > 0) (void)::madvise(at_, size_, MADV_DONTNEED);
  }

 private:
  void* at_;
  std::size_t size_;
  std::string path_;
};

class PosixLock final : public LockHeld {
 public:
  explicit PosixLock(UniqueFd fd) : fd_(std::move(fd)) {}

 private:
  UniqueFd fd_;  // closing it lets the lock go
};

int flags_of(Open mode) {
  switch (mode) {
    case Open::read:
      return O_RDONLY;
    case Open::read_write:
      return O_RDWR;
    case Open::create:
      return O_RDWR | O_CREAT;
    case Open::create_new:
      return O_RDWR | O_CREAT | O_EXCL;
  }
  return O_RDONLY;
}

int open_retrying(const std::string& path, int flags) {
  for (;;) {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, kFileMode);
    if (fd >= 0 || errno != EINTR) return fd;
  }
}

class PosixDisk final : public Disk {
 public:
  explicit PosixDisk(std::int64_t sync_delay_us) : sync_delay_us_(sync_delay_us) {}

  Result<std::unique_ptr<File>> open(const std::string& path, Open mode) override {
    UniqueFd fd(open_retrying(path, flags_of(mode)));
    if (fd.get() < 0) return failed("open", path);
    return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(fd), path, sync_delay_us_));
  }

  Result<bool> exists(const std::string& path) override {
    struct stat about{};
    if (::stat(path.c_str(), &about) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return failed("stat", path);
  }

  Result<std::vector<DirEntry>> list(const std::string& directory) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), ::closedir);
    if (!stream) return failed("opendir", directory);
    std::vector<DirEntry> entries;
    for (;;) {
      errno = 0;
      const dirent* found = ::readdir(stream.get());
      if (found == nullptr && errno != 0) return failed("readdir", directory);
      if (found == nullptr) break;
      const std::string name = found->d_name;
      if (name != "." && name != "..") entries.push_back({name, is_directory(directory, *found)});
    }
    std::ranges::sort(entries, {}, &DirEntry::name);
    return entries;
  }

  Result<std::unique_ptr<Mapping>> map(const std::string& path) override {
    const UniqueFd fd(open_retrying(path, O_RDONLY));
    if (fd.get() < 0) return failed("open", path);
    struct stat about{};
    if (::fstat(fd.get(), &about) != 0) return failed("fstat", path);
    const auto size = static_cast<std::size_t>(about.st_size);
    void* at = size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (at == MAP_FAILED) {
      Error error = failed("mmap", path);
      if (error.sys_errno == ENOMEM) error.code = Errc::full;
      return error;
    }
    return std::unique_ptr<Mapping>(std::make_unique<PosixMapping>(at, size, path));
  }

  Status make_dirs(const std::string& directory) override {
    for (std::size_t end = 0; end != std::string::npos;) {
      end = directory.find('/', end + 1);
      const std::string part = directory.substr(0, end);
      if (::mkdir(part.c_str(), kDirectoryMode) == 0 || errno == EEXIST) continue;
      return failed("mkdir", part);
    }
    struct stat about{};
    if (::stat(directory.c_str(), &about) != 0) return failed("stat", directory);
    if (S_ISDIR(about.st_mode)) return {};
    errno = ENOTDIR;
    return failed("mkdir", directory);
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return failed("rename", from);
    return {};
  }
  Status remove_file(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) return failed("unlink", path);
    return {};
  }
  Status remove_dir(const std::string& directory) override {
    if (::rmdir(directory.c_str()) != 0) return failed("rmdir", directory);
    return {};
  }
  Status sync_dir(const std::string& directory) override {
    const UniqueFd fd(open_retrying(directory, O_RDONLY | O_DIRECTORY));
    if (fd.get() < 0) return failed("open", directory);
    if (::fsync(fd.get()) != 0) return failed("fsync", directory);
    return {};
  }

  Result<VolumeUse> volume(const std::string& path) override {
    struct statvfs use{};
    if (::statvfs(path.c_str(), &use) != 0) return failed("statvfs", path);
    return VolumeUse{.total_bytes = std::uint64_t{use.f_blocks} * use.f_frsize,
                     .free_bytes = std::uint64_t{use.f_bavail} * use.f_frsize};
  }

  std::string doubtful_file_system(const std::string& path) override {
    struct statfs about{};
    if (::statfs(path.c_str(), &about) != 0) return {};
    switch (static_cast<std::uint32_t>(about.f_type)) {
      case NFS_SUPER_MAGIC:
        return "nfs";
      case SMB_SUPER_MAGIC:
      case SMB2_SUPER_MAGIC:
      case CIFS_SUPER_MAGIC:
        return "smb";
      case FUSE_SUPER_MAGIC:
        return "fuse";
      case OVERLAYFS_SUPER_MAGIC:
        return "overlay";
      default:
        return {};
    }
  }

  Result<std::unique_ptr<LockHeld>> lock(const std::string& path) override {
    UniqueFd fd(open_retrying(path, O_RDWR | O_CREAT));
    if (fd.get() < 0) return failed("open", path);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return Error{Errc::busy, path + " is locked by another process", errno};
      return failed("flock", path);
    }
    return std::unique_ptr<LockHeld>(std::make_unique<PosixLock>(std::move(fd)));
  }

 private:
  static bool is_directory(const std::string& parent, const dirent& entry) {
    if (entry.d_type != DT_UNKNOWN && entry.d_type != DT_LNK) return entry.d_type == DT_DIR;
    struct stat about{};
    return ::stat((parent + "/" + entry.d_name).c_str(), &about) == 0 && S_ISDIR(about.st_mode);
  }

  const std::int64_t sync_delay_us_;
};

}  // namespace

std::unique_ptr<Disk> make_posix_disk(std::int64_t sync_delay_us) {
  return std::make_unique<PosixDisk>(sync_delay_us);
}

}  // namespace queen::disk
