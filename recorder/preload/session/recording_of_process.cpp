#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "recorder/preload/session/config.h"
#include "recorder/preload/session/recording.h"

namespace msda::record {
namespace {

// A process' own recording, and one that has ended, for copies of the process. Made once and never destroyed.
struct Recordings {
  Recordings() : own(config()), none(config()) { none.stop(); }
  Recording own, none;
};
constinit std::atomic<Recordings*> recordings{nullptr};
constinit std::atomic<pid_t> process{0};

Recordings& made() {
  if (Recordings* known = recordings.load(std::memory_order_acquire)) return *known;
  auto* fresh = new Recordings;
  Recordings* known = nullptr;
  if (!recordings.compare_exchange_strong(known, fresh)) {
    delete fresh;
    return *known;
  }
  process = getpid();
  pthread_atfork([] { recordings.load()->own.before_fork(); }, [] { recordings.load()->own.after_fork(); },
                 [] {
                   process = getpid();
                   recordings.load()->own.forget_in_child();
                 });
  return *fresh;
}

}  // namespace

[[gnu::hot]] Recording& recording() noexcept {
  Recordings& both = made();
  // A vfork child has its parent's memory, and a raw clone has a copy that no fork handler has seen.
  return getpid() == process ? both.own : both.none;
}

void finish_recording() noexcept {
  if (recordings.load(std::memory_order_acquire) != nullptr) recording().finish();
}

}  // namespace msda::record
