// Functions of other libraries that the preload stands in for, whichever way a program finds them: by linking, where
// the preload comes first, or by dlsym, which the preload answers (dlsym.cpp).
#pragma once

namespace msda::record {

// dlsym as the C library has it.
void* real_dlsym(void* handle, const char* name) noexcept;

// The next definition of a function behind the preload's own.
void* next_definition(const char* name) noexcept;

// A function of a library that the process has, by the library's SONAME; null without it. Loads nothing.
void* definition_in(const char* library, const char* name) noexcept;

// What to answer to a dlsym for `name`, given what the real one found; `found` itself for all but a few names. Called
// for every dlsym of the host.
void* substitute(const char* name, void* found) noexcept;

// The hooks' own answers; null for a name that is not theirs.
void* substitute_cpu_call(const char* name, void* found) noexcept;
void* substitute_gpu_call(const char* name, void* found) noexcept;
void* substitute_driver(const char* name, void* found) noexcept;
void* substitute_seed(const char* name, void* found) noexcept;
void* substitute_cupti(const char* name, void* found) noexcept;

}  // namespace msda::record
