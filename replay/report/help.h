// What to do about a group of findings.
#pragma once

#include <string>

#include "replay/report/result.h"

namespace msda::replay {

struct GroupHelp {
  std::string text;   // a sentence that ends with a colon
  std::string type;   // a line to type; empty if there is only the next
  bool shows_stages;  // what msda-replay stages prints of the group's farthest element is to be looked at
};

GroupHelp help_for(const analysis::Group& group, const InvocationResult& result);

}  // namespace msda::replay
