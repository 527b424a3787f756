// The seeds that the program sets. Recording starts with the first recorded call, and most seeds are set before it: the
// last of them are kept here until then. Where seeds are seen: seed_hooks.cpp.
#pragma once

#include <cstdint>

#include "recorder/spool/messages.h"

namespace msda::record {

enum class SeedSource : uint8_t { kTorchCuda, kTorchCpu, kCurand, kLibc };

// From any thread, under any lock of the program's; errno stays as it is.
void note_seed(SeedSource source, uint64_t value) noexcept;

// Recording starts: hands the seeds kept so far to `write`, and from now on each as it comes. `write` may throw.
void write_seeds(void (*write)(const spool::Seed& seed)) noexcept;

}  // namespace msda::record
