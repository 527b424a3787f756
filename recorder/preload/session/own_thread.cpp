#include "recorder/preload/session/own_thread.h"

#include <pthread.h>
#include <signal.h>

namespace msda::record {

bool start_own_thread(void* (*run)(void*), void* argument) noexcept {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, run, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) pthread_detach(thread);
  return started;
}

}  // namespace msda::record
