// The page of a comparison of runs: the two beside each other, around the place where they part.
#pragma once

#include <string>

#include "replay/base/json.h"

namespace msda::replay {

// `comparison` is what `diff --json` gives of trails, with the first line of its text as `headline`.
std::string html_of_trails(const Json& comparison, const std::string& headline, const std::string& version);

}  // namespace msda::replay
