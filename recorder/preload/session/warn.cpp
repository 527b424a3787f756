#include "recorder/preload/session/warn.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "recorder/preload/session/observations.h"
#include "recorder/spool/cancellation.h"
#include "recorder/spool/write_signals.h"
#include "recorder/text/escape.h"

namespace msda::record {
namespace {

struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
};
constinit FileIdentity standard_error;
constinit std::atomic<bool> noted{false};

// A program that closes its standard error may get descriptor 2 again for a file that it writes data to. A program that
// redirects it opens a terminal, a pipe, or a log to append to.
bool is_standard_error() {
  struct stat now {};
  if (fstat(STDERR_FILENO, &now) != 0) return false;
  if (!noted || (now.st_dev == standard_error.device && now.st_ino == standard_error.inode)) return true;
  if (S_ISFIFO(now.st_mode) || isatty(STDERR_FILENO) == 1) return true;
  return S_ISREG(now.st_mode) && (fcntl(STDERR_FILENO, F_GETFL) & O_APPEND) != 0;
}

}  // namespace

void note_standard_error() noexcept {
  const int saved = errno;
  struct stat now {};
  if (fstat(STDERR_FILENO, &now) == 0) standard_error = {now.st_dev, now.st_ino};
  noted = true;
  errno = saved;
}

void warn(const std::string& message) noexcept {
  observe("warning", message);
  const int saved = errno;
  try {
    const std::string line = "msda-record: " + text::escaped(message) + "\n";
    const spool::CancellationHeld uncancelled;
    const spool::WriteSignalsHeld held;  // standard error may be a closed pipe
    if (is_standard_error() && write(STDERR_FILENO, line.data(), line.size()) < 0) {
    }  // the warning is lost
  } catch (...) {
  }
  errno = saved;
}

}  // namespace msda::record
