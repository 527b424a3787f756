// Functions of other libraries that the preload replaces, whichever way a program finds them: by linking, where the
// preload comes first, or by dlsym, which the preload replaces too (dlsym.cpp).
#pragma once

namespace msda::record {

// Returns the result of a dlsym for `name`, given what the real one found: `found` itself for all but a few names.
// Called for every dlsym of the program.
void* substitute(const char* name, void* found) noexcept;

// Returns the replacement from one group of hooks; null for any other name.
void* substitute_abi(const char* name, void* found) noexcept;
void* substitute_driver(const char* name, void* found) noexcept;
void* substitute_seed(const char* name, void* found) noexcept;
void* substitute_cupti(const char* name, void* found) noexcept;

}  // namespace msda::record
