#include "recorder/preload/driver/events.h"

#include <pthread.h>

#include <mutex>
#include <new>
#include <unordered_set>

#include "recorder/adapters/made_once.h"

namespace msda::record {
namespace {

struct Events {
  std::mutex mutex;
  std::unordered_set<cuda::Event> without_time;

  // In a forked child the lock may be held by a thread that does not exist there.
  Events() {
    pthread_atfork(nullptr, nullptr, [] { new (&all().mutex) std::mutex; });
  }

  static Events& all() {
    static constinit MadeOnce<Events> events;
    return events.get();
  }
};

}  // namespace

void event_created(cuda::Event event, unsigned flags) noexcept {
  if ((flags & cuda::kDisableTiming) == 0) return;
  try {
    const std::lock_guard lock(Events::all().mutex);
    Events::all().without_time.insert(event);
  } catch (...) {  // no memory: it counts as a timing event
  }
}

void event_destroyed(cuda::Event event) noexcept {
  const std::lock_guard lock(Events::all().mutex);
  Events::all().without_time.erase(event);
}

bool keeps_time(cuda::Event event) noexcept {
  const std::lock_guard lock(Events::all().mutex);
  return !Events::all().without_time.contains(event);
}

}  // namespace msda::record
