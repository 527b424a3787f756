// Keeps threads apart: one may run launches again, and meanwhile no other may launch, copy, allocate or free. Nobody
// waits for ever for a thread that only waits for the device, which may wait for that very thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace msda::record {

class TrialLock {
 public:
  // A thread's turn; or none, if the thread is within another turn of its own. When it ends, other threads go on.
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&& source) noexcept { *this = std::move(source); }
    Turn& operator=(Turn&& source) noexcept;
    ~Turn() { end(); }

    // Returns whether no other thread has a turn, and this one may look at what the lock guards. Otherwise it waited in
    // vain, or has the lock already.
    bool owns_lock() const { return lock_ != nullptr && !passes_; }
    // Called when it has seen what it wanted, and calls the driver for the program. Others may do so, too, but none may
    // run launches again.
    void pass() noexcept;
    // Waits until the threads that passed have finished. Returns false after so many seconds. Must not be called after
    // pass().
    bool is_alone(double seconds) noexcept;
    // Called before launches run again: from now on others wait until the end, however long. Returns false if somebody
    // has waited in vain since is_alone(), and passed. Must not be called after pass().
    bool begin_repeating() noexcept;
    void end_repeating() noexcept;
    void end() noexcept;

   private:
    friend class TrialLock;
    Turn(TrialLock* lock, bool passes) : lock_(lock), passes_(passes) {}
    TrialLock* lock_ = nullptr;
    bool passes_ = false;
  };

  // Waits for the others. After so many seconds in vain, not counted while launches run again, the thread passes by: it
  // does not own the lock.
  Turn take(double seconds) noexcept;
  // As take(), but at the end of the process, maybe in a signal handler. Returns nothing if there is no turn within
  // this time, or if this very thread was interrupted in its own turn.
  Turn take_at_end(double seconds) noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  static Clock::time_point after(double seconds) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  void own() noexcept;

  // A thread that waits, on its own stack: no memory is needed.
  class Waiting {
   public:
    explicit Waiting(TrialLock& lock);  // behind the others
    ~Waiting();
    bool is_first() const { return lock_.first_ == this; }

   private:
    TrialLock& lock_;
    Waiting* next_ = nullptr;
  };

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool is_owned_ = false, repeats_ = false;
  std::thread::id owner_;
  int passing_ = 0;
  Waiting* first_ = nullptr;  // threads have their turns in the order in which they came
  bool was_passed_ = false;   // by a thread that waited in vain
  // Threads in take_at_end(): the others let them have the next turn.
  std::atomic<int> ending_{0};
};

}  // namespace msda::record
