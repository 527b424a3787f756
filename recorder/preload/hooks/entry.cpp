// Runs when the library is loaded and does almost nothing. Recording starts with the first call that is to be recorded.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/hooks/cupti_hook.h"
#include "recorder/preload/hooks/msda_record.h"
#include "recorder/preload/hooks/watching.h"
#include "recorder/preload/session/config.h"
#include "recorder/preload/session/labels.h"
#include "recorder/preload/session/observations.h"
#include "recorder/preload/session/recording.h"
#include "recorder/preload/session/warn.h"

namespace {

void observe_process() {
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
  msda::record::observe("loaded", {program, length > 0 ? static_cast<size_t>(length) : 0});
}

void report() {
  if (msda::record::Survey::is_wanted()) msda::record::Survey::instance().report();
  if (msda::record::Trail::is_wanted()) msda::record::Trail::instance().report();
}

__attribute__((constructor)) void loaded() {
  try {
    msda::record::note_standard_error();
    observe_process();
    msda::record::config();  // before the program changes its working folder: the output may be relative
    msda::record::recording().serve({msda::record::cuda::pin, msda::record::cuda::unpin,
                                     [] { msda::record::cuda::driver(); }, msda::record::cuda::add_device_facts,
                                     report});
    msda::record::offer_injection();
  } catch (...) {
  }
}

// Handles the end of the process, which does not become another program.
void finish_process() {
  msda::record::finish_recording();
  msda::record::observe("ended", "");
}

__attribute__((destructor)) void unloaded() { finish_process(); }

}  // namespace

// Process ends that run no destructor. A child that shares its parent's memory (vfork) ends this way, too, but the
// recording is its parent's. A signal handler may have interrupted the recorder's own work on this thread, so nothing
// here waits for that work.
extern "C" __attribute__((visibility("default"), noreturn)) void _exit(int status) {
  if (!msda::record::inside) finish_process();
  for (;;) syscall(SYS_exit_group, status);
}

extern "C" __attribute__((visibility("default"), noreturn)) void _Exit(int status) { _exit(status); }

extern "C" __attribute__((visibility("default"))) void msda_record_label(const char* label) {
  msda::record::set_label(label);
}

extern "C" __attribute__((visibility("default"))) long long msda_record_complete(char* path, size_t size) {
  const int saved = errno;
  long long invocations = -1;
  try {
    std::string output;
    invocations = msda::record::recording().complete_capture(output);
    if (path != nullptr && size > 0) path[output.copy(path, size - 1)] = 0;
    if (output.size() >= size && invocations > 0) invocations = -1;
  } catch (...) {
  }
  errno = saved;
  return invocations;
}

extern "C" __attribute__((visibility("default"))) size_t msda_record_survey(char* text, size_t size) {
  const int saved = errno;
  size_t needed = 0;
  try {
    if (msda::record::Survey::is_wanted()) {
      const std::string lines = msda::record::Survey::instance().lines();
      needed = lines.size() + 1;
      if (text != nullptr && needed <= size) text[lines.copy(text, size - 1)] = 0;
    }
  } catch (...) {
  }
  errno = saved;
  return needed;
}

extern "C" __attribute__((visibility("default"))) void msda_record_discard(void) {
  const int saved = errno;
  msda::record::recording().discard_calls();
  errno = saved;
}
