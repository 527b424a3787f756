// Why two runs part, as far as their trails tell.
#pragma once

#include "replay/diff/trail_differences.h"

namespace msda::replay {

// Sets the cause and the evidence; nothing where the files do not tell.
void find_cause(const TrailRun& a, const TrailRun& b, const TrailAlignment& alignment, TrailPart& part);

// Whether its name or its caller is of a kernel that draws random numbers.
bool draws_random_numbers(const TrailRun& run, size_t row);

// Names of the facts of /run that differ and of which numbers may depend, as "gpu: A | B".
std::vector<std::string> other_machine(const TrailRun& a, const TrailRun& b);

}  // namespace msda::replay
