// The flag --element.
#pragma once

#include <string>

#include "analysis/model/call.h"

namespace msda::replay {

// "grad_sampling_locations[0,948,0,0,2,0]". Throws BadInput, which names the flag.
analysis::ElementId parse_element(const std::string& text, const analysis::Call& call);

}  // namespace msda::replay
