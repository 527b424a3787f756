// What differs between the facts of two runs or two calls, and whether numbers may depend on it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recorder/capture/isolated_reader.h"
#include "replay/diff/differences.h"

namespace msda::replay {

using Facts = std::map<std::string, std::string>;

// Compares facts by name. Each difference has `may_decide` set, unless its name or values say that no number depends on
// it.
std::vector<Difference> differing_facts(const std::string& section, const Facts& a, const Facts& b);

// Compares arguments, machine, libraries and environment of two captures in the same way. Adds the number of facts to
// `compared`.
std::vector<Difference> differing_runs(const capture::IsolatedReader& a, const capture::IsolatedReader& b,
                                       int64_t& compared);

// Returns how many names the two sides have together.
int64_t count_names(const Facts& a, const Facts& b);

}  // namespace msda::replay
