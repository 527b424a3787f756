#include "recorder/preload/survey/trial_lock.h"

#include <algorithm>

#include "recorder/spool/cancellation.h"

namespace msda::record {
namespace {

constexpr std::chrono::milliseconds kMoment(1);

}  // namespace

TrialLock::Turn& TrialLock::Turn::operator=(Turn&& source) noexcept {
  end();
  lock_ = std::exchange(source.lock_, nullptr);
  passes_ = source.passes_;
  return *this;
}

void TrialLock::Turn::end() noexcept {
  TrialLock* const lock = std::exchange(lock_, nullptr);
  if (lock == nullptr) return;
  {
    const std::lock_guard guard(lock->mutex_);
    if (passes_) {
      --lock->passing_;
    } else {
      lock->is_owned_ = lock->repeats_ = false;
      lock->owner_ = {};
    }
  }
  lock->changed_.notify_all();
}

void TrialLock::Turn::pass() noexcept {
  if (!owns_lock()) return;
  {
    const std::lock_guard guard(lock_->mutex_);
    lock_->is_owned_ = false;
    lock_->owner_ = {};
    ++lock_->passing_;
    passes_ = true;
  }
  lock_->changed_.notify_all();
}

bool TrialLock::Turn::is_alone(double seconds) noexcept {
  if (lock_ == nullptr) return true;
  const spool::CancellationHeld uncancelled;
  std::unique_lock guard(lock_->mutex_);
  const bool is_alone = lock_->changed_.wait_until(guard, after(seconds), [&] { return lock_->passing_ == 0; });
  lock_->was_passed_ = !is_alone;
  return is_alone;
}

bool TrialLock::Turn::begin_repeating() noexcept {
  if (lock_ == nullptr) return true;
  const std::lock_guard guard(lock_->mutex_);
  return lock_->repeats_ = !lock_->was_passed_;
}

void TrialLock::Turn::end_repeating() noexcept {
  if (lock_ == nullptr) return;
  const std::lock_guard guard(lock_->mutex_);
  lock_->repeats_ = false;
}

void TrialLock::own() noexcept {
  is_owned_ = true;
  owner_ = std::this_thread::get_id();
}

TrialLock::Waiting::Waiting(TrialLock& lock) : lock_(lock) {
  Waiting** last = &lock.first_;
  while (*last != nullptr) last = &(*last)->next_;
  *last = this;
}

TrialLock::Waiting::~Waiting() {
  Waiting** place = &lock_.first_;
  while (*place != this) place = &(*place)->next_;
  *place = next_;
  lock_.changed_.notify_all();  // another thread is the first now
}

TrialLock::Turn TrialLock::take(double seconds) noexcept {
  const spool::CancellationHeld uncancelled;  // which would end a thread that waits here
  std::unique_lock guard(mutex_);
  const bool has_it = is_owned_ && owner_ == std::this_thread::get_id();
  const Waiting waiting(*this);
  for (auto end = after(seconds); !has_it && (is_owned_ || ending_ > 0 || !waiting.is_first());) {
    if (repeats_) {
      changed_.wait(guard);
      end = after(seconds);
    } else if (Clock::now() > end) {
      break;
    } else {
      // A signal handler that ends the process may not notify.
      changed_.wait_until(guard, is_owned_ ? end : std::min(end, Clock::now() + kMoment));
    }
  }
  const bool passes = is_owned_;
  if (passes) {
    ++passing_;
    was_passed_ = true;
  } else {
    own();
  }
  return {this, passes};
}

TrialLock::Turn TrialLock::take_at_end(double seconds) noexcept {
  const auto end = after(seconds);
  ++ending_;
  Turn turn;
  do {
    // Uses no lock(): a signal may have interrupted this thread while it held the mutex.
    const std::unique_lock guard(mutex_, std::try_to_lock);
    if (guard.owns_lock() && is_owned_ && owner_ == std::this_thread::get_id()) break;
    if (guard.owns_lock() && !is_owned_) {
      own();
      turn.lock_ = this;
      break;
    }
    std::this_thread::sleep_for(kMoment);
  } while (Clock::now() < end);
  --ending_;
  return turn;
}

}  // namespace msda::record
