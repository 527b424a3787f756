#include "recorder/preload/session/delivery_thread.h"

#include <semaphore.h>
#include <time.h>

#include <deque>
#include <mutex>
#include <new>
#include <utility>

#include "recorder/preload/session/own_thread.h"

namespace msda::record {
namespace {

std::mutex start_mutex;

void sleep_for(long nanoseconds) {
  const timespec pause{0, nanoseconds};
  nanosleep(&pause, nullptr);
}

}  // namespace

struct DeliveryThread::State {
  struct Job {
    std::function<bool()> is_ready;
    std::function<void()> work;
  };

  explicit State(void (*when_idle)() noexcept) : idle(when_idle) { sem_init(&news, 0, 0); }

  void (*idle)() noexcept;
  std::mutex mutex;
  std::deque<Job> jobs;  // in the order of the launches; includes the job being done
  sem_t news;            // posted for a new job, and by drain()
  std::atomic<size_t> left{0};
  std::atomic<uint64_t> progress{0}, drains_asked{0}, drains_done{0};

  // Does the jobs that are ready. Returns false if none was.
  bool work_off() {
    bool any = false;
    std::unique_lock lock(mutex);
    for (size_t i = 0; i < jobs.size();) {
      Job& job = jobs[i];
      lock.unlock();  // other threads may append meanwhile, which does not move a deque's elements
      const bool ready = job.is_ready();
      if (ready) job.work();
      lock.lock();
      if (!ready) {
        ++i;
        continue;
      }
      any = true;
      jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(i));
      left = jobs.size();
      ++progress;
    }
    return any;
  }

  // Waits for news, at most `milliseconds` unless that is negative. Returns false if the time has passed.
  bool wait(long milliseconds) {
    if (milliseconds < 0) return sem_wait(&news) == 0;
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += milliseconds * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return sem_timedwait(&news, &until) == 0;
  }
};

void* DeliveryThread::run(void* state_pointer) {
  State& state = *static_cast<State*>(state_pointer);
  bool was_idle = true;
  for (;;) {
    const uint64_t asked = state.drains_asked;
    while (state.work_off()) was_idle = false;
    if (state.left > 0) {
      sleep_for(100000);
      continue;
    }
    if (asked != state.drains_done) {
      state.idle();
      was_idle = true;
      state.drains_done = asked;
      continue;
    }
    if (!state.wait(was_idle ? -1 : 200) && !was_idle && state.left == 0) {
      state.idle();
      was_idle = true;
    }
  }
}

DeliveryThread::State* DeliveryThread::state() {
  const std::lock_guard lock(start_mutex);
  if (state_ != nullptr) return state_;
  auto* state = new State(idle_);
  if (!start_own_thread(run, state)) {
    delete state;
    return nullptr;
  }
  state_ = state;
  return state;
}

bool DeliveryThread::when_ready(std::function<bool()> is_ready, std::function<void()> work) noexcept {
  try {
    State* mine = state();
    if (mine == nullptr) return false;
    {
      const std::lock_guard lock(mine->mutex);
      mine->jobs.push_back({std::move(is_ready), std::move(work)});
      mine->left = mine->jobs.size();
    }
    sem_post(&mine->news);
    return true;
  } catch (...) {
    return false;
  }
}

size_t DeliveryThread::drain() noexcept {
  State* mine = state_;
  if (mine == nullptr) return 0;
  const uint64_t number = ++mine->drains_asked;
  sem_post(&mine->news);
  constexpr int kSleepsInFiveSeconds = 25000;
  uint64_t progress = mine->progress;
  for (int sleeps = 0; mine->drains_done < number; ++sleeps) {
    if (mine->progress != progress) sleeps = 0;
    progress = mine->progress;
    if (sleeps > kSleepsInFiveSeconds) return mine->left;
    sleep_for(200000);
  }
  return 0;
}

void DeliveryThread::forget_in_child() noexcept {
  state_ = nullptr;  // not destroyed: another thread of the parent may have been changing it
  new (&start_mutex) std::mutex;
}

}  // namespace msda::record
