// Guards for the recorder's own calls of the driver, on a thread of the program.
#pragma once

#include <cerrno>

#include "recorder/preload/driver/driver_api.h"
#include "recorder/spool/cancellation.h"

namespace msda::record {

// While another thread captures a graph, allocating or waiting for a stream would invalidate that capture, unless this
// thread is in relaxed mode.
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

// Set during the recorder's own driver calls, which may pass through the hooks again.
inline thread_local bool inside = false;
class Inside {
 public:
  Inside() { inside = true; }
  ~Inside() { inside = false; }
};

// Does work in a context that need not be the calling thread's own.
class InContext {
 public:
  explicit InContext(cuda::Context context) {
    is_other_ = cuda::driver().current_context(&before_) == cuda::kSuccess && before_ != context &&
                cuda::driver().set_context != nullptr && cuda::driver().set_context(context) == cuda::kSuccess;
  }
  ~InContext() {
    if (is_other_) cuda::driver().set_context(before_);
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  cuda::Context before_ = nullptr;
  bool is_other_ = false;
};

// Runs work of the recorder that makes only calls of the driver that a capture allows: it asks what is current, or
// launches what was launched before. If memory is short, the work ends: a launch is not recorded, or autotuner launches
// are not counted.
template <class Work>
void unnoticed(Work&& work) noexcept {
  const spool::CancellationHeld uncancelled;
  const int saved = errno;
  {
    const Inside guard;
    try {
      work();
    } catch (...) {
    }
  }
  errno = saved;
}

// As above, for work that may call anything of the driver.
template <class Work>
void by_itself(Work&& work) noexcept {
  unnoticed([&] {
    const RelaxedCapture relaxed;
    work();
  });
}

}  // namespace msda::record
