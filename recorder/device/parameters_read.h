// Which bytes of its parameters a kernel reads, as its machine code says: what is between the fields of a structure,
// and what it leaves unset of its arrays, is anything, and another thing in each launch.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace msda::record {

// Of `bytes` bytes whether the code may read each. All of them where the code cannot be decoded, computes where it
// reads, or takes the address of its parameters.
std::vector<bool> parameters_read_by(std::span<const std::byte> cubin, std::string_view kernel,
                                     std::string_view architecture, size_t bytes);

}  // namespace msda::record
