#include "recorder/preload/session/observations.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "recorder/spool/cancellation.h"
#include "recorder/spool/owned_descriptor.h"
#include "recorder/spool/write_signals.h"

namespace msda::record {
namespace {

// Replaces everything that could end the line, except the tabs that the caller puts between two texts.
std::string as_line(const char* event, std::string_view text) {
  std::string line = std::to_string(getpid()) + "\t" + event + "\t";
  for (const char c : text) line += c == '\n' || c == '\r' || c == '\0' ? ' ' : c;
  return line + "\n";
}

// Read once, when the recorder is loaded or by a warning that comes before: later a thread of the program may change
// the environment. Empty if the variable is not set.
constinit std::atomic<const char*> observations_path{nullptr};

const char* path_of_observations() noexcept {
  if (const char* known = observations_path) return known;
  const char* value = getenv("MSDA_RECORD_OBSERVATIONS");
  const char* const copy = value != nullptr ? strdup(value) : "";
  const char* known = nullptr;
  if (copy == nullptr || observations_path.compare_exchange_strong(known, copy)) return copy != nullptr ? copy : "";
  return known;  // the copy of another thread; this one, of a few bytes, is lost
}

__attribute__((constructor)) void read_path_of_observations() { path_of_observations(); }

bool is_regular(int file) {
  struct stat status {};
  return file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

void observe(const char* event, std::string_view text) noexcept {
  const char* const path = path_of_observations();
  if (*path == 0) return;
  const int saved = errno;
  try {
    const std::string line = as_line(event, text);
    const spool::CancellationHeld uncancelled;  // first: the signals' end waits, too
    const spool::WriteSignalsHeld held;
    // Opened for each line: the program may close or replace any descriptor that it did not open.
    const spool::OwnedDescriptor file(open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (is_regular(file.get()) && write(file.get(), line.data(), line.size()) < 0) {
    }  // the line is lost
  } catch (...) {
  }
  errno = saved;
}

}  // namespace msda::record
