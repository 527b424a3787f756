// The recorder's own thread in the recorded program: processes a launch once the device has finished it, so that the
// launch's caller need not wait. It starts with the first recorded launch. When no launch has come for 200 ms, and when
// the program ends, it calls `idle`.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace msda::record {

class DeliveryThread {
 public:
  explicit DeliveryThread(void (*idle)() noexcept) : idle_(idle) {}

  // Calls `work` on the thread once `is_ready` returns true, in the order of these calls as far as they become ready in
  // that order. Returns false if the thread cannot be started: then `work` is never called.
  bool when_ready(std::function<bool()> is_ready, std::function<void()> work) noexcept;

  // Waits until all work is done, `idle` last. Gives up when nothing became ready for five seconds. Returns how many
  // launches are left. Takes no lock and allocates nothing, so a signal handler may call it, whatever it interrupted.
  size_t drain() noexcept;

  // Called in a forked child: the thread is the parent's.
  void forget_in_child() noexcept;

 private:
  struct State;
  static void* run(void* state);
  State* state();

  void (*idle_)() noexcept;
  std::atomic<State*> state_{nullptr};
};

}  // namespace msda::record
