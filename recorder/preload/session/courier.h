// The recorder's own thread in the target: does what there is to do for a launch once the device is done with it, so
// that the launch's caller need not wait. Started with the first launch that is recorded. When nothing has come for
// 200 ms, it writes what recording.h holds back.
#pragma once

#include <functional>

#include "recorder/preload/driver/digester.h"

namespace msda::record {

class Courier {
 public:
  using Work = std::function<void(const Digests&)>;
  static Courier& instance();

  // Calls `work` on the thread when the digests are ready; in the order of the calls of this, as far as they become
  // ready in that order. False if there is no thread to be had: then nothing will be done.
  bool when_ready(Digests digests, Work work) noexcept;
  // Waits until all is done; gives up when for five seconds nothing became ready. The number of what is left.
  size_t drain() noexcept;
  // In a forked child: the thread is the parent's.
  void abandon() noexcept;

 private:
  struct State;
  static void* run(void* state);
  State* state();
  State* state_ = nullptr;
};

}  // namespace msda::record
