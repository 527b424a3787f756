// Shows the progress of long work: one line on a terminal, which each step overwrites; nothing elsewhere.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

namespace msda::replay {

class Progress {
 public:
  explicit Progress(bool wanted) : shown_(wanted && isatty(STDERR_FILENO) != 0) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { show(""); }

  void show(const std::string& step) const {
    if (!shown_) return;
    std::fputs(("\r\033[K" + step).c_str(), stderr);
    std::fflush(stderr);
  }

 private:
  bool shown_;
};

}  // namespace msda::replay
