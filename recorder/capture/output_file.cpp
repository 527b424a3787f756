#include "recorder/capture/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "recorder/capture/capture.h"

namespace msda::capture {
namespace {

bool is_file_at(int descriptor, const std::string& name) {
  struct stat here {
  }, there{};
  return fstat(descriptor, &here) == 0 && lstat(name.c_str(), &there) == 0 && here.st_dev == there.st_dev &&
         here.st_ino == there.st_ino;
}

// Opens nothing to find out, because a FIFO or a device would notice.
void check_replaceable(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || (S_ISREG(status.st_mode) && may_be_capture(path))) return;
  const char* what = S_ISDIR(status.st_mode)   ? "a folder"
                     : S_ISLNK(status.st_mode) ? "a symbolic link"
                     : S_ISREG(status.st_mode) ? "no capture"
                                               : "no file";
  throw Error(fmt::format("{}: cannot replace it: it is {}; give another name", path, what));
}

}  // namespace

bool may_be_capture(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) return false;
  char begin[kHdf5Signature.size()];
  const ssize_t length = read(descriptor, begin, sizeof begin);
  close(descriptor);
  if (length < 0) return false;
  const std::string_view found(begin, static_cast<size_t>(length));
  return found == kHdf5Signature || found.find_first_not_of('\0') == found.npos;
}

OutputFile::OutputFile(const std::string& path, bool replace) : path_(path), name_(path) {
  if (replace) {
    check_replaceable(path);
    name_ += ".new-XXXXXX";
    descriptor_ = mkostemp(name_.data(), O_CLOEXEC);
  } else {
    descriptor_ = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
  }
  if (descriptor_ < 0) {
    const int error = errno;
    throw Error(fmt::format("{}: cannot create it: {}{}", path, std::strerror(error),
                            error == EEXIST ? " (--force replaces it; or give another name)" : ""));
  }
}

OutputFile::~OutputFile() {
  if (!published_ && is_file_at(descriptor_, name_)) unlink(name_.c_str());
  unlock();  // HDF5 may have the descriptor open for good (Handle::forget)
  close(descriptor_);
  if (watch_ >= 0) close(watch_);
}

std::string OutputFile::by_descriptor() const {
  const std::string link = fmt::format("/proc/self/fd/{}", descriptor_);
  if (access(link.c_str(), F_OK) == 0) return link;
  if (is_file_at(descriptor_, name_)) return name_;
  throw Error(fmt::format("{}: cannot create it: another file has its name already, and /proc is not mounted", path_));
}

void OutputFile::become(int descriptor) {
  const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) throw Error(fmt::format("{}: cannot keep it open: {}", path_, std::strerror(errno)));
  flock(copy, LOCK_EX | LOCK_NB);  // without locks in the file system, readers cannot see it
  close(std::exchange(descriptor_, copy));
  watch_ = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (watch_ >= 0) inotify_add_watch(watch_, by_descriptor().c_str(), IN_CLOSE_WRITE);
}

void OutputFile::publish() {
  if (published_) return;
  if (name_ != path_) {
    check_replaceable(path_);
    if (!is_file_at(descriptor_, name_) || rename(name_.c_str(), path_.c_str()) != 0) {
      throw Error(fmt::format("{}: cannot replace it: {}", path_, std::strerror(errno)));
    }
    name_ = path_;
  }
  published_ = true;
}

bool OutputFile::is_in_place() const { return published_ && is_file_at(descriptor_, path_); }

bool OutputFile::put_back_at(const std::string& name) {
  struct stat status {};
  const int fresh = open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fresh < 0) return false;
  bool copied = fstat(descriptor_, &status) == 0;
  for (off_t at = 0; copied && at < status.st_size;) {
    copied = sendfile(fresh, descriptor_, &at, static_cast<size_t>(status.st_size - at)) > 0;
  }
  if (!copied) unlink(name.c_str());
  close(fresh);
  return copied;
}

bool OutputFile::was_disturbed() {
  inotify_event closed{};
  disturbed_ = disturbed_ || (watch_ >= 0 && read(watch_, &closed, sizeof closed) > 0);
  return disturbed_;
}

bool OutputFile::reserve(uint64_t begin, int64_t bytes, int64_t spared) {
  struct stat before {};
  rlimit limit{};
  off_t end = 0;
  if (fstat(descriptor_, &before) != 0 || getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
      __builtin_add_overflow(begin, std::max<int64_t>(bytes, 1), &end) || static_cast<rlim_t>(end) > limit.rlim_cur) {
    return false;  // a write beyond the limit would raise a signal
  }
  const auto is_free = [this](int64_t wanted) {
    struct statvfs disk {};
    return fstatvfs(descriptor_, &disk) == 0 &&
           static_cast<uint64_t>(wanted) / disk.f_frsize < static_cast<uint64_t>(disk.f_bavail);
  };
  const bool reserved = fallocate(descriptor_, 0, static_cast<off_t>(begin), end - static_cast<off_t>(begin)) == 0;
  if (reserved && (spared == 0 || is_free(spared))) return true;
  // If the file system cannot reserve space, the space that is free now has to suffice.
  const bool room = !reserved && errno == EOPNOTSUPP && is_free(bytes) && is_free(bytes + spared);
  if (ftruncate(descriptor_, before.st_size) != 0) {
  }  // space reserved so far stays
  return room;
}

void OutputFile::cut(uint64_t end) {
  if (ftruncate(descriptor_, static_cast<off_t>(end)) != 0) {
  }  // unneeded space stays
}

void OutputFile::unlock() { flock(descriptor_, LOCK_UN); }

}  // namespace msda::capture
