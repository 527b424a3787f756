// Why two runs part, as far as their trails show.
#pragma once

#include "replay/diff/trail_differences.h"

namespace msda::replay {

// Sets the cause and the evidence; neither if the files do not show them.
void find_cause(const TrailRun& a, const TrailRun& b, const TrailAlignment& alignment, TrailPart& part);

// Returns whether its name or its caller is that of a kernel that draws random numbers.
bool draws_random_numbers(const TrailRun& run, size_t row);

// Returns the facts of /run that differ and on which numbers may depend, as "gpu: A | B".
std::vector<std::string> other_machine(const TrailRun& a, const TrailRun& b);

}  // namespace msda::replay
