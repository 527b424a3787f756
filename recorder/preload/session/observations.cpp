#include "recorder/preload/session/observations.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "recorder/spool/owned_descriptor.h"
#include "recorder/spool/write_signals.h"

namespace msda::record {
namespace {

// Everything that could end the line is replaced, except the tabs that the caller puts between two texts.
std::string as_line(const char* event, std::string_view text) {
  std::string line = std::to_string(getpid()) + "\t" + event + "\t";
  for (const char c : text) line += c == '\n' || c == '\r' || c == '\0' ? ' ' : c;
  return line + "\n";
}

}  // namespace

void observe(const char* event, std::string_view text) noexcept {
  // Read each time: it is a rare event, and a warning may come before the settings are read.
  const char* path = getenv("MSDA_RECORD_OBSERVATIONS");
  if (path == nullptr || *path == 0) return;
  const int saved = errno;
  try {
    const std::string line = as_line(event, text);
    const spool::WriteSignalsHeld held;
    // Opened for each line: the program may close or replace any descriptor that it did not open.
    const spool::OwnedDescriptor file(open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
    if (file.get() >= 0 && write(file.get(), line.data(), line.size()) < 0) {
    }  // the line is lost
  } catch (...) {
  }
  errno = saved;
}

}  // namespace msda::record
