// Runs when the library is loaded and does almost nothing. Recording starts with the first call that is to be recorded.
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder/preload/driver/driver_api.h"
#include "recorder/preload/driver/own_calls.h"
#include "recorder/preload/hooks/cupti_hook.h"
#include "recorder/preload/hooks/msda_record.h"
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

__attribute__((constructor)) void loaded() {
  try {
    msda::record::note_standard_error();
    observe_process();
    msda::record::config();  // before the program changes its working folder: the output may be relative
    msda::record::recording().serve(
        {msda::record::cuda::pin, msda::record::cuda::unpin, msda::record::cuda::add_device_facts});
    msda::record::offer_injection();
  } catch (...) {
  }
}

__attribute__((destructor)) void unloaded() { msda::record::finish_recording(); }

}  // namespace

// Process ends that run no destructor. A child that shares its parent's memory (vfork) ends this way, too; the
// recording is not its own. A signal handler may have interrupted the recorder's own work on this thread, which it must
// not wait for.
extern "C" __attribute__((visibility("default"), noreturn)) void _exit(int status) {
  if (!msda::record::inside) msda::record::finish_recording();
  for (;;) syscall(SYS_exit_group, status);
}

extern "C" __attribute__((visibility("default"), noreturn)) void _Exit(int status) { _exit(status); }

extern "C" __attribute__((visibility("default"))) void msda_record_label(const char* label) {
  msda::record::set_label(label);
}
