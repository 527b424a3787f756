// Functions of other libraries that the preload stands in for, whichever way a program finds them: by linking, where
// the preload comes first, or by dlsym, which the preload answers (dlsym.cpp).
#pragma once

namespace msda::record {

// What to answer to a dlsym for `name`, given what the real one found; `found` itself for all but a few names. Called
// for every dlsym of the host.
void* substitute(const char* name, void* found) noexcept;

// The hooks' own answers; null for a name that is not theirs.
void* substitute_abi(const char* name, void* found) noexcept;
void* substitute_driver(const char* name, void* found) noexcept;
void* substitute_seed(const char* name, void* found) noexcept;
void* substitute_cupti(const char* name, void* found) noexcept;

}  // namespace msda::record
