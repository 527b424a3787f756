// Finds the memory that a launch can reach by pointers in memory, as by a table of pointers.
#pragma once

#include "recorder/preload/survey/reach.h"

namespace msda::record {

// Adds to `reach` the allocations in `all` that words in its memory of the host point into. Returns false if there is
// too much of that memory. Another device's memory is not searched.
bool follow_on_host(Reach& reach, const DeviceRange& all);

}  // namespace msda::record
