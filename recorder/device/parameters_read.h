// Finds which bytes of its parameters a kernel reads, by its machine code. What lies between the fields of a structure,
// and what it leaves unset of its arrays, may be anything, and differs from launch to launch.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace msda::record {

// Returns for each of `bytes` bytes whether the code may read it. All of them count as read if the code cannot be
// decoded, computes where it reads, or takes the address of its parameters.
std::vector<bool> parameters_read_by(std::span<const std::byte> cubin, std::string_view kernel,
                                     std::string_view architecture, size_t bytes);

}  // namespace msda::record
