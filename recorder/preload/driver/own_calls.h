// Around what the recorder itself asks of the driver, on a thread of the program's.
#pragma once

#include <cerrno>

#include "recorder/preload/driver/driver_api.h"

namespace msda::record {

// While another thread captures a graph, allocating or waiting for a stream would make that capture invalid, unless
// this thread says that it knows.
class RelaxedCapture {
 public:
  RelaxedCapture() { exchange(); }
  ~RelaxedCapture() { exchange(); }

 private:
  void exchange() {
    if (cuda::driver().exchange_capture_mode != nullptr) cuda::driver().exchange_capture_mode(&mode_);
  }
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED; after the first exchange, what it was
};

// The driver calls that the recorder makes itself may come back through the hooks.
inline thread_local bool inside = false;
class Inside {
 public:
  Inside() { inside = true; }
  ~Inside() { inside = false; }
};

// Does work of the recorder's own that calls the driver. If memory is missing it ends there: a launch goes by
// unrecorded, or autotuner launches uncounted.
template <class Work>
void by_itself(Work&& work) noexcept {
  const int saved = errno;
  {
    const Inside guard;
    const RelaxedCapture relaxed;
    try {
      work();
    } catch (...) {
    }
  }
  errno = saved;
}

}  // namespace msda::record
