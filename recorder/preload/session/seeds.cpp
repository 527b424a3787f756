#include "recorder/preload/session/seeds.h"

#include <pthread.h>

#include <cerrno>
#include <ctime>
#include <mutex>
#include <new>
#include <string>

#include "recorder/preload/session/provenance.h"
#include "recorder/preload/session/warn.h"

namespace msda::record {
namespace {

constexpr uint64_t kKept = 4096;    // of the last seeds, until recording starts, here or in a forked child
constexpr uint64_t kMost = 100000;  // recorded per process: a program that seeds for each number must not fill the disk

struct Event {
  timespec time;
  uint64_t value;
  SeedSource source;
};

// Zero-initialized, so that it exists before any constructor runs, and costs nothing in programs that set no seed.
struct Log {
  std::mutex mutex;
  Event kept[kKept];                  // number i is kept[i % kKept]
  uint64_t set;                       // in all, including the parent's before a fork
  uint64_t written;                   // in this process
  void (*write)(const spool::Seed&);  // null until recording starts
};
constinit Log seeds{};

// Code that runs below may set a seed itself (an allocator, a signal handler). Such a seed is ignored, because the
// mutex is held.
thread_local bool busy = false;

class Alone {
 public:
  Alone() : errno_(errno) { busy = true; }
  ~Alone() {
    busy = false;
    errno = errno_;
  }

 private:
  int errno_;
};

const char* source_name(SeedSource source) {
  switch (source) {
    case SeedSource::kTorchCuda:
      return "torch_cuda";
    case SeedSource::kTorchCpu:
      return "torch_cpu";
    case SeedSource::kCurand:
      return "curand";
    case SeedSource::kLibc:
      return "libc";
  }
  return "";
}

// Needs the mutex to be held.
void hand_over(const Event& event) {
  const uint64_t before = seeds.written++;
  if (before < kMost) {
    seeds.write({iso_8601(event.time), source_name(event.source), event.value});
  } else if (before == kMost) {
    warn(std::to_string(kMost) + " seeds are recorded; further seeds are not");
  }
}

// In a forked child the seeds so far count too, and its own recording has not started. A thread that held the mutex
// does not exist there.
__attribute__((constructor)) void reset_seeds_in_children() {
  pthread_atfork(nullptr, nullptr, [] {
    new (&seeds.mutex) std::mutex;
    seeds.write = nullptr;
    seeds.written = 0;
  });
}

}  // namespace

void note_seed(SeedSource source, uint64_t value) noexcept {
  if (busy) return;
  const Alone alone;
  Event event{{}, value, source};
  clock_gettime(CLOCK_REALTIME, &event.time);
  try {
    const std::lock_guard lock(seeds.mutex);
    seeds.kept[seeds.set % kKept] = event;
    ++seeds.set;
    if (seeds.write != nullptr) hand_over(event);
  } catch (...) {  // no memory for the message
  }
}

void write_seeds(void (*to)(const spool::Seed& seed)) noexcept {
  const Alone alone;
  try {
    const std::lock_guard lock(seeds.mutex);
    seeds.write = to;
    const uint64_t first = seeds.set > kKept ? seeds.set - kKept : 0;
    if (first > 0) {
      warn("only the last " + std::to_string(kKept) + " of the " + std::to_string(seeds.set) +
           " seeds set before the first recorded call are recorded");
    }
    for (uint64_t i = first; i < seeds.set; ++i) hand_over(seeds.kept[i % kKept]);
  } catch (...) {
  }
}

}  // namespace msda::record
