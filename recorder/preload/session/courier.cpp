#include "recorder/preload/session/courier.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "recorder/preload/session/recording.h"

namespace msda::record {
namespace {

std::mutex start_mutex;

struct Job {
  Digests digests;
  Courier::Work work;
};

}  // namespace

struct Courier::State {
  std::mutex mutex;
  std::condition_variable news;
  std::deque<Job> jobs;  // in the order of the launches; the one at work is still here
  uint64_t done = 0;
};

Courier& Courier::instance() {
  static auto* courier = new Courier;  // never destroyed: its thread runs until the process ends
  return *courier;
}

void* Courier::run(void* state_pointer) {
  State& state = *static_cast<State*>(state_pointer);
  std::unique_lock lock(state.mutex);
  for (;;) {
    const auto has_jobs = [&] { return !state.jobs.empty(); };
    if (!state.news.wait_for(lock, std::chrono::milliseconds(200), has_jobs)) {
      lock.unlock();
      write_held();
      lock.lock();
      state.news.wait(lock, has_jobs);
    }
    bool any = false;
    for (size_t i = 0; i < state.jobs.size();) {
      Job& job = state.jobs[i];
      if (!job.digests.ready()) {
        ++i;
        continue;
      }
      any = true;
      lock.unlock();
      job.work(job.digests);  // others may append meanwhile, which leaves a deque's elements where they are
      lock.lock();
      ++state.done;
      state.jobs.erase(state.jobs.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (any) continue;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    lock.lock();
  }
}

Courier::State* Courier::state() {
  const std::lock_guard lock(start_mutex);
  if (state_ != nullptr) return state_;
  auto* state = new State;
  // No signal of the host's is this thread's to take.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, run, state) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) {
    delete state;
    return nullptr;
  }
  pthread_detach(thread);
  state_ = state;
  return state_;
}

bool Courier::when_ready(Digests digests, Work work) noexcept {
  try {
    State* mine = state();
    if (mine == nullptr) return false;
    {
      const std::lock_guard lock(mine->mutex);
      mine->jobs.push_back({std::move(digests), std::move(work)});
    }
    mine->news.notify_one();
    return true;
  } catch (...) {
    return false;
  }
}

size_t Courier::drain() noexcept {
  State* mine = state_;
  if (mine == nullptr) return 0;
  uint64_t done = 0;
  auto since = std::chrono::steady_clock::now();
  for (;;) {
    {
      const std::lock_guard lock(mine->mutex);
      if (mine->jobs.empty()) return 0;
      if (mine->done != done) since = std::chrono::steady_clock::now();
      done = mine->done;
      if (std::chrono::steady_clock::now() - since > std::chrono::seconds(5)) return mine->jobs.size();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void Courier::abandon() noexcept {
  state_ = nullptr;
  new (&start_mutex) std::mutex;
}

}  // namespace msda::record
