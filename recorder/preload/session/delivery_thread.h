// The recorder's own thread in the target: does what there is to do for a launch once the device is done with it, so
// that the launch's caller need not wait. Started with the first launch that is recorded. When nothing has come for
// 200 ms, and when the program ends, it calls `idle`.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace msda::record {

class DeliveryThread {
 public:
  explicit DeliveryThread(void (*idle)() noexcept) : idle_(idle) {}

  // Calls `work` on the thread once `is_ready` gives true; in the order of the calls of this, as far as they become
  // ready in that order. False if no thread can be made: then nothing will be done.
  bool when_ready(std::function<bool()> is_ready, std::function<void()> work) noexcept;

  // Waits until everything is done, `idle` last. Gives up when for five seconds nothing became ready. The number of
  // what is left. Takes no lock and allocates nothing: a signal handler may call it, whatever it interrupted.
  size_t drain() noexcept;

  // In a forked child: the thread is the parent's.
  void forget_in_child() noexcept;

 private:
  struct State;
  static void* run(void* state);
  State* state();

  void (*idle_)() noexcept;
  std::atomic<State*> state_{nullptr};
};

}  // namespace msda::record
