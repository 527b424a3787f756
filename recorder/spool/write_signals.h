// Signals that a failing write raises in the thread that writes.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <ctime>
#include <initializer_list>

namespace msda::spool {

// While this lives, a write beyond the limit on file sizes (SIGXFSZ) or to a reader that is gone (SIGPIPE) is an error
// like any other, and does not end the program that the recorder is in.
class WriteSignalsHeld {
 public:
  WriteSignalsHeld() {
    if (depth_++ > 0) return;  // one around is enough
    sigset_t pending;
    sigemptyset(&raised_by_writes_);
    sigpending(&pending);
    for (const int signal : {SIGXFSZ, SIGPIPE}) {  // one that is pending already is the program's
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
