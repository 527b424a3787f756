// What a function makes at its first call and keeps: as a static local, but without the lock that one has while it is
// made. A thread that holds that lock when another one forks leaves it locked in the child for ever.
#pragma once

#include <atomic>
#include <memory>

namespace msda {

// Must be declared `static constinit`. Never destroyed: a program calls the recorder until its very end.
template <class T>
class MadeOnce {
 public:
  constexpr MadeOnce() = default;
  MadeOnce(const MadeOnce&) = delete;
  MadeOnce& operator=(const MadeOnce&) = delete;

  // `make` returns a std::unique_ptr<T>. Threads that come at the same time may each make one; one of them is kept.
  template <class Make>
  T& get(Make make) {
    if (T* known = made_.load(std::memory_order_acquire)) return *known;
    std::unique_ptr<T> mine = make();
    T* known = nullptr;
    if (made_.compare_exchange_strong(known, mine.get(), std::memory_order_acq_rel)) return *mine.release();
    return *known;
  }
  T& get() {
    return get([] { return std::make_unique<T>(); });
  }

 private:
  std::atomic<T*> made_{nullptr};
};

}  // namespace msda
