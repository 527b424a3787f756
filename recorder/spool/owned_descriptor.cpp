#include "recorder/spool/owned_descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace msda::spool {
namespace {

// Standard streams are 0 to 2, shells keep their own copies from 10 on, and programs count up from the lowest.
int move_out_of_the_way(int descriptor) {
  constexpr rlim_t kHigh = 960, kAboveShells = 20;
  rlimit limit{};
  const rlim_t numbers = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
  for (const rlim_t at_least : {kHigh, numbers / 2, kAboveShells, rlim_t{3}}) {
    const int moved = at_least < numbers ? fcntl(descriptor, F_DUPFD_CLOEXEC, static_cast<int>(at_least)) : -1;
    if (moved < 0) continue;
    ::close(descriptor);
    return moved;
  }
  return descriptor;
}

}  // namespace

OwnedDescriptor::OwnedDescriptor(int descriptor) noexcept {
  if (descriptor < 0) return;
  number_ = move_out_of_the_way(descriptor);
  struct stat status {};
  // The number of a standard stream, which the program had closed, must stay free for the program.
  if (number_ <= STDERR_FILENO || fstat(number_, &status) != 0) {
    ::close(number_);
    number_ = -1;
    return;
  }
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

OwnedDescriptor& OwnedDescriptor::operator=(OwnedDescriptor&& source) noexcept {
  if (this != &source) {
    if (number_ == source.number_) number_ = -1;  // the program had closed it, and the other one got the same number
    close();
    swap(source);
  }
  return *this;
}

bool OwnedDescriptor::is_same_file(int descriptor) const noexcept {
  struct stat status {};
  const int saved = errno;
  const bool same = fstat(descriptor, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
  errno = saved;
  return same;
}

int OwnedDescriptor::get() const noexcept { return number_ >= 0 && is_same_file(number_) ? number_ : -1; }

void OwnedDescriptor::close() noexcept {
  if (const int mine = get(); mine >= 0) ::close(mine);
  number_ = -1;
}

void OwnedDescriptor::swap(OwnedDescriptor& descriptor) noexcept {
  std::swap(number_, descriptor.number_);
  std::swap(device_, descriptor.device_);
  std::swap(inode_, descriptor.inode_);
}

}  // namespace msda::spool
