// Looks up functions of other libraries, skipping the preload's own functions of the same names.
#pragma once

#include <atomic>

extern "C" {
// The C library's dlsym, set before any other code can call it. Plain C, because the preload's own dlsym jumps to it.
__attribute__((visibility("hidden"))) extern void* msda_record_real_dlsym;
__attribute__((visibility("hidden"))) void msda_record_find_real_dlsym();
}

namespace msda::record {

// Calls the C library's dlsym.
void* real_dlsym(void* handle, const char* name) noexcept;

// Returns the next definition of a function after the preload's own, and keeps its library (keep_loaded).
void* next_definition(const char* name) noexcept;

// Returns a function of a loaded library, by the library's SONAME; null if it is not loaded. Loads nothing.
void* definition_in(const char* library, const char* name) noexcept;

// Keeps the library of a function that the recorder will call: the program may close it, and another one of its
// libraries may then call the recorder's function.
void keep_loaded(const void* function) noexcept;

// Returns whether `found` is the function that the recorder calls, `real`: the first one that was found, whose library
// is then kept. One of a second copy of the library in this process is not.
template <class Function>
bool is_first_copy(std::atomic<Function*>& real, Function* found) noexcept {
  Function* known = nullptr;
  if (!real.compare_exchange_strong(known, found)) return known == found;
  keep_loaded(reinterpret_cast<const void*>(found));
  return true;
}

}  // namespace msda::record
