// Suppresses the signals that a failing write raises in the writing thread.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <ctime>
#include <initializer_list>

namespace msda::spool {

// While this object lives, a write beyond the limit on file sizes (SIGXFSZ) or to a closed pipe (SIGPIPE) only returns
// an error and does not end the recorded program.
class WriteSignalsHeld {
 public:
  WriteSignalsHeld() {
    if (depth_++ > 0) return;  // nested: the outer one suffices
    sigset_t pending;
    sigemptyset(&raised_by_writes_);
    sigpending(&pending);
    for (const int signal : {SIGXFSZ, SIGPIPE}) {  // a signal that is pending already belongs to the program
      if (sigismember(&pending, signal) == 0) sigaddset(&raised_by_writes_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &raised_by_writes_, &before_);
  }
  ~WriteSignalsHeld() {
    if (--depth_ > 0) return;
    const timespec at_once{};
    while (sigtimedwait(&raised_by_writes_, nullptr, &at_once) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WriteSignalsHeld(const WriteSignalsHeld&) = delete;
  WriteSignalsHeld& operator=(const WriteSignalsHeld&) = delete;

 private:
  static inline constinit thread_local int depth_ = 0;
  sigset_t raised_by_writes_, before_;
};

}  // namespace msda::spool
