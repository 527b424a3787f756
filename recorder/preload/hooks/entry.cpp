// What happens when the library is loaded: almost nothing. Recording starts with the first call that is to be recorded.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "recorder/preload/session/config.h"
#include "recorder/preload/hooks/cupti_hook.h"
#include "recorder/preload/hooks/msda_record.h"
#include "recorder/preload/session/recording.h"

namespace {

__attribute__((constructor)) void loaded() {
  try {
    msda::record::config();  // while the folder is still the one that a relative output means
    msda::record::offer_injection();
  } catch (...) {
  }
}

__attribute__((destructor)) void unloaded() { msda::record::finish(); }

}  // namespace

// The ends that no destructor sees. A child that shares its parent's memory (vfork) ends this way, too: finish() knows
// it by its process.
extern "C" __attribute__((visibility("default"), noreturn)) void _exit(int status) {
  msda::record::finish();
  for (;;) syscall(SYS_exit_group, status);
}

extern "C" __attribute__((visibility("default"), noreturn)) void _Exit(int status) { _exit(status); }

extern "C" __attribute__((visibility("default"))) void msda_record_label(const char* label) {
  msda::record::set_label(label);
}
