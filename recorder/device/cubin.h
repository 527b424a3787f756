// What the code that a program hands to the driver is made of: cubins, which are ELF files, alone or in a fatbin. Pure
// functions of the bytes; nothing is read beyond what the headers say, nor beyond a size where one is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace msda::record {

struct Cubin {
  std::span<const std::byte> bytes;
  int architecture = 0;  // 90 for sm_90; 0: nothing says it beside the cubin
};

// Those in an image as cuModuleLoadData and its like take it, whose size is what its headers say: itself, or what lies
// uncompressed in a fatbin.
std::vector<Cubin> cubins_in(const void* image);

// A cubin of at most so many bytes; empty if it is none.
std::span<const std::byte> cubin_at(const void* image, size_t bytes);

// The names of its functions, kernels among them, in those very bytes. Empty for a cubin that contradicts itself.
std::vector<std::string_view> functions_in(std::span<const std::byte> cubin);

// The number that the function of that name has in the table of symbols; empty if there is none.
std::optional<uint64_t> symbol_of(std::span<const std::byte> cubin, std::string_view function);

// The machine code of the function of that name; empty if there is none.
std::span<const std::byte> code_of(std::span<const std::byte> cubin, std::string_view function);

}  // namespace msda::record
