// The seeds that the program sets. Recording starts with the first recorded call, and most seeds are set before it: the
// last of them are kept here until then. seed_hooks.cpp intercepts the functions.
#pragma once

#include <cstdint>

#include "recorder/spool/messages.h"

namespace msda::record {

enum class SeedSource : uint8_t { kTorchCuda, kTorchCpu, kCurand, kLibc };

// Notes a seed. May be called from any thread, under any lock of the program; keeps errno.
void note_seed(SeedSource source, uint64_t value) noexcept;

// Called when recording starts: passes the seeds kept so far to `write`, and from now on each new one. `write` may
// throw.
void write_seeds(void (*write)(const spool::Seed& seed)) noexcept;

}  // namespace msda::record
