// What happens when the library is loaded: almost nothing. Recording starts with the first call that is to be recorded.
#include <dlfcn.h>

#include <cstdlib>

#include "recorder/preload/config.h"
#include "recorder/preload/cupti_hook.h"
#include "recorder/preload/msda_record.h"
#include "recorder/preload/recording.h"

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

extern "C" __attribute__((visibility("default"))) void msda_record_label(const char* label) {
  msda::record::set_label(label);
}
