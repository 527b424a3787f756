// What differs between the facts of two runs or two calls, and whether numbers may depend on it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recorder/capture/capture.h"
#include "replay/diff/differences.h"

namespace msda::replay {

using Facts = std::map<std::string, std::string>;

// By name. Each has `may_decide` set, unless its name or its values say that no number depends on it.
std::vector<Difference> differing_facts(const std::string& section, const Facts& a, const Facts& b);

// The same of arguments, machine, libraries and environment. `compared` is raised by how many facts there are.
std::vector<Difference> differing_runs(const capture::Run& a, const capture::Run& b, int64_t& compared);

// How many names there are on either side.
int64_t count_names(const Facts& a, const Facts& b);

}  // namespace msda::replay
