// What to do about a cause.
#pragma once

#include <string>

#include "replay/report/result.h"

namespace msda::replay {

struct Help {
  std::string text;     // a sentence or two; with `stages`, it ends in a colon
  bool stages = false;  // the next command is msda-replay stages, for the group's farthest element
};

Help help_for(const analysis::Group& group, const InvocationResult& result);

}  // namespace msda::replay
