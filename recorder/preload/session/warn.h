// The recorder's one line to the user, on the standard error of its host.
#pragma once

#include <unistd.h>

#include <string>

namespace msda::record {

// One write, so that lines of several threads stay whole.
inline void warn(const std::string& text) noexcept {
  try {
    const std::string line = "msda-record: " + text + "\n";
    if (write(STDERR_FILENO, line.data(), line.size()) < 0) {
    }  // nobody to tell
  } catch (...) {
  }
}

}  // namespace msda::record
