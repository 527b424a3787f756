// Ctrl-C during long work that has a result to report or to save when it ends early.
#pragma once

#include <csignal>

namespace msda::replay {

// While it lives, SIGINT and SIGTERM only ask running work to stop; a second one ends the process. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static bool received();
  static int last();  // the signal, or 0

 private:
  struct sigaction interrupt_, terminate_;  // as they were before
};

}  // namespace msda::replay
