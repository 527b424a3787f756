// Every term of every element is looked at before a definition is used: in each cell that rounding may bring its
// coordinates to.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/operators/own/definition.h"

namespace msda::replay {

// Returns the cells that the coordinates of an element may lie in, in the arithmetic of its call; the exact ones first.
// One empty entry for elements without coordinates.
std::vector<analysis::OwnCells> reachable_cells(const analysis::OwnDefinition& definition, size_t output, int64_t flat);

// What is wrong with the first element that fault_of finds fault with, "sum[3,1]: reads ...", whatever the number of
// threads; nothing if all is well.
using FaultOfElement = std::function<std::optional<std::string>(size_t output, int64_t flat)>;
std::optional<std::string> first_fault(const analysis::OwnDefinition& definition, int threads,
                                       const FaultOfElement& fault_of);

}  // namespace msda::replay
