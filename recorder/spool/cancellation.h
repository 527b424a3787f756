// Keeps a thread of the program from being cancelled while it runs the recorder's functions. Waiting and writing are
// points at which pthread_cancel takes effect, and a function that is noexcept would then end the program.
#pragma once

#include <pthread.h>

namespace msda::spool {

class CancellationHeld {
 public:
  CancellationHeld() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationHeld() { pthread_setcancelstate(before_, nullptr); }
  CancellationHeld(const CancellationHeld&) = delete;
  CancellationHeld& operator=(const CancellationHeld&) = delete;

 private:
  int before_ = 0;
};

}  // namespace msda::spool
