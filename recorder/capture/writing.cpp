#include "recorder/capture/writing.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

namespace msda::capture {
namespace {

// Returns the process that holds a lock on the file, as /proc/locks has it. A file of an overlay, as containers have,
// has another number there.
std::string holder_of(const struct stat& file) {
  const std::string wanted = fmt::format("{:02x}:{:02x}:{}", major(file.st_dev), minor(file.st_dev), file.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, access, process, place;
    words >> number >> kind >> advisory >> access >> process >> place;
    if (kind == "FLOCK" && access == "WRITE" && place == wanted) return "process " + process;
  }
  return "another process";
}

}  // namespace

std::string who_writes(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";  // opening the capture will report the reason
  struct stat file {};
  const bool locked = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK && fstat(fd, &file) == 0;
  ::close(fd);
  if (!locked) return "";
  return fmt::format("is being written by {}; wait until that ends", holder_of(file));
}

}  // namespace msda::capture
