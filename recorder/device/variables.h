// Finds which variables of its module (__device__, __managed__) a kernel may use, by its machine code.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "recorder/device/cubin.h"

namespace msda::record {

// Returns all that the module has if the code cannot be decoded. A pointer to a variable that lies in memory is not
// seen.
std::vector<Variable> variables_used_by(std::span<const std::byte> cubin, std::string_view kernel,
                                        std::string_view architecture);

}  // namespace msda::record
