#include "recorder/preload/session/own_thread.h"

#include <pthread.h>
#include <signal.h>

#include <cstdint>
#include <optional>

namespace msda::record {
namespace {

// Returns nothing if no thread can be started.
std::optional<pthread_t> start(void* (*run)(void*), void* argument) {
  constexpr size_t kStack = 4 << 20;  // of which only what is touched takes memory
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return std::nullopt;
  pthread_attr_setstacksize(&attributes, kStack);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, run, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return started ? std::optional(thread) : std::nullopt;
}

}  // namespace

bool start_own_thread(void* (*run)(void*), void* argument) noexcept {
  const auto thread = start(run, argument);
  if (thread) pthread_detach(*thread);
  return thread.has_value();
}

bool on_own_thread(const std::function<void()>& work) noexcept {
  struct Job {
    const std::function<void()>& work;
    bool done = false;
  };
  Job job{work};
  const auto run = [](void* argument) -> void* {
    Job& mine = *static_cast<Job*>(argument);
    try {
      mine.work();
      mine.done = true;
    } catch (...) {
    }
    return nullptr;
  };
  const auto thread = start(run, &job);
  return thread && pthread_join(*thread, nullptr) == 0 && job.done;
}

bool has_much_stack() noexcept {
  constexpr size_t kMuch = 64 << 10;
  // Asked for once a thread: for the main thread the C library reads the list of all mappings, which takes a
  // millisecond.
  struct Stack {
    uintptr_t lowest = 0;
    size_t bytes = 0;  // 0: not known
  };
  static constinit thread_local Stack stack;
  if (stack.bytes == 0) {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
    void* lowest = nullptr;
    size_t bytes = 0;
    const bool is_found = pthread_attr_getstack(&attributes, &lowest, &bytes) == 0;
    pthread_attr_destroy(&attributes);
    if (!is_found) return false;
    stack = {reinterpret_cast<uintptr_t>(lowest), bytes};
  }
  const int here_lies = 0;
  const auto here = reinterpret_cast<uintptr_t>(&here_lies);
  return here >= stack.lowest && here - stack.lowest >= kMuch && here - stack.lowest < stack.bytes;
}

bool on_enough_stack(const std::function<void()>& work) noexcept {
  if (!has_much_stack()) return on_own_thread(work);
  try {
    work();
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace msda::record
