// Runs independent tasks on a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace msda::kernels {

// Returns the number of threads to use for a request of `threads` (0: one a core) and `tasks` tasks; at least 1.
inline int thread_count(int32_t threads, int64_t tasks) {
  const int64_t wanted = threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  return static_cast<int>(std::clamp<int64_t>(std::min(wanted, tasks), 1, 1024));
}

// A task that is compiled elsewhere: parallel_for()'s use of threads is then compiled once, not once for each kind of
// task.
struct AnyWork {
  void* work;
  void (*call)(void* work, int64_t task, int worker);
};

inline void run_on_threads(int64_t tasks, int threads, AnyWork work) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&](int worker) {
    for (int64_t task = next++; task < tasks; task = next++) {
      try {
        work.call(work.work, task, worker);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next = tasks;
      }
    }
  };
  // Reserved first: an exception of the vector must not destroy a thread that has not been joined.
  std::vector<std::thread> helpers;
  helpers.reserve(static_cast<size_t>(threads));
  for (int worker = 1; worker < threads; ++worker) {
    try {
      helpers.emplace_back(run, worker);
    } catch (const std::exception&) {  // the system refuses a thread, or there is no memory for one
      break;
    }
  }
  run(0);
  for (std::thread& helper : helpers) helper.join();
  if (error) std::rethrow_exception(error);
}

// Calls work(task, worker) for every task in [0, tasks), on `threads` threads; `worker` < threads identifies the
// thread. Tasks start in the order of their numbers. The first exception stops the rest and is rethrown here. If the
// system refuses threads, fewer do the work.
template <class Work>
void parallel_for(int64_t tasks, int threads, Work&& work) {
  using Called = std::remove_reference_t<Work>;
  const auto call = [](void* called, int64_t task, int worker) { (*static_cast<Called*>(called))(task, worker); };
  run_on_threads(tasks, threads, {const_cast<void*>(static_cast<const void*>(std::addressof(work))), call});
}

// Calls work(i) for every i in [0, count), a task for each `chunk` of them, on as many threads as thread_count() has.
template <class Work>
void parallel_for_each(int64_t count, int64_t chunk, int32_t threads, Work&& work) {
  const int64_t tasks = (count + chunk - 1) / chunk;
  parallel_for(tasks, thread_count(threads, tasks), [&](int64_t task, int) {
    const int64_t end = std::min(count, (task + 1) * chunk);
    for (int64_t i = task * chunk; i < end; ++i) work(i);
  });
}

}  // namespace msda::kernels
