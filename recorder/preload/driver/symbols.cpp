#include "recorder/preload/driver/symbols.h"

#include <dlfcn.h>
#include <link.h>

#include <cerrno>

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

void* next_definition(const char* name) noexcept {
  void* found = real_dlsym(RTLD_NEXT, name);
  if (found != nullptr) keep_loaded(found);
  return found;
}

void* definition_in(const char* library, const char* name) noexcept {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  return handle != nullptr ? real_dlsym(handle, name) : nullptr;
}

void keep_loaded(const void* function) noexcept {
  const int saved = errno;
  Dl_info info{};
  link_map* library = nullptr;
  const bool found = dladdr1(function, &info, reinterpret_cast<void**>(&library), RTLD_DL_LINKMAP) != 0;
  // The program itself, which has no name, stays. The handle is never closed.
  if (found && library != nullptr && *library->l_name != 0 &&
      dlopen(library->l_name, RTLD_LAZY | RTLD_NOLOAD) == nullptr) {
    dlerror();  // the program, whose dlsym succeeded, is to find no error
  }
  errno = saved;
}

}  // namespace msda::record
