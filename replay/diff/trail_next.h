// What to type next, once it is known where two runs part.
#pragma once

#include <string>

#include "replay/diff/trail_differences.h"

namespace msda::replay {

std::string next_command(const TrailRun& a, const TrailRun& b, const TrailPart& part);

}  // namespace msda::replay
