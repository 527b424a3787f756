// What to do about a cause.
#pragma once

#include <string>

#include "replay/report/result.h"

namespace msda::replay {

struct Help {
  std::string sentences{};  // may be empty if there is a lead
  // To what msda-replay stages prints of the group's farthest element, which is to be looked at next; may be empty.
  std::string lead{};

  std::string text() const {
    if (lead.empty()) return sentences;
    return sentences.empty() ? lead + ":" : sentences + " " + lead + ":";
  }
};

Help help_for(const analysis::Group& group, const InvocationResult& result);

}  // namespace msda::replay
