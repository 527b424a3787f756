// The functions of other libraries, found past the preload's own of the same names.
#pragma once

extern "C" {
// dlsym as the C library has it; set before anybody can call. Plain C, as the preload's own dlsym jumps to it.
__attribute__((visibility("hidden"))) extern void* msda_record_real_dlsym;
__attribute__((visibility("hidden"))) void msda_record_find_real_dlsym();
}

namespace msda::record {

// dlsym as the C library has it.
void* real_dlsym(void* handle, const char* name) noexcept;

// The next definition of a function behind the preload's own.
void* next_definition(const char* name) noexcept;

// A function of a library that the process has, by the library's SONAME; null without it. Loads nothing.
void* definition_in(const char* library, const char* name) noexcept;

}  // namespace msda::record
