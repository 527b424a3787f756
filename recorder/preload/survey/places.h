// Finds where in the source the instructions stand that can make a kernel vary, by the line table of its cubin.
#pragma once

#include <cstdint>
#include <string>

#include "recorder/preload/driver/images.h"

namespace msda::record {

// A line of text for each place. It holds, separated by tabs, the instruction, how many of it there are, and
// "FILE:LINE" from the inside out: of an inlined function, then of its call. Empty without a line table.
struct Places {
  std::string text;
  int64_t left_out = 0;  // for want of room
};

// Returns the places of floating-point additions in memory, and of what may be part of one.
Places places_of_additions(const Image& image, const std::string& kernel, const std::string& architecture);

// Returns the places of what hands results from one block to another (communication.h).
Places places_of_communication(const Image& image, const std::string& kernel, const std::string& architecture);

}  // namespace msda::record
