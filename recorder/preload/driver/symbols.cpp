#include "recorder/preload/driver/symbols.h"

#include <dlfcn.h>

extern "C" {

void* msda_record_real_dlsym = nullptr;

void msda_record_find_real_dlsym() {
  if (msda_record_real_dlsym != nullptr) return;
  void* found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  if (found == nullptr) found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  msda_record_real_dlsym = found;
}
}

namespace msda::record {

void* real_dlsym(void* handle, const char* name) noexcept {
  msda_record_find_real_dlsym();
  const auto real = reinterpret_cast<void* (*)(void*, const char*)>(msda_record_real_dlsym);
  return real != nullptr ? real(handle, name) : nullptr;
}

void* next_definition(const char* name) noexcept { return real_dlsym(RTLD_NEXT, name); }

void* definition_in(const char* library, const char* name) noexcept {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  return handle != nullptr ? real_dlsym(handle, name) : nullptr;
}

}  // namespace msda::record
