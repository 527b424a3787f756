// Parses the code that a program hands to the driver: cubins, which are ELF files, alone or in a fatbin. Pure functions
// of the bytes; nothing is read beyond what the headers declare, nor beyond a known size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

namespace msda::record {

struct Cubin {
  std::span<const std::byte> bytes;
  int architecture = 0;  // 90 for sm_90; 0: nothing outside the cubin says it
};

// Returns the cubins in an image as cuModuleLoadData takes it, whose size its headers declare: the image itself, or the
// uncompressed entries of a fatbin.
std::vector<Cubin> cubins_in(const void* image);

// Returns the cubin at `image`, of at most `bytes` bytes; empty if there is none.
std::span<const std::byte> cubin_at(const void* image, size_t bytes);

// Returns the names of its functions, kernels among them, as views into the cubin. Empty for an inconsistent cubin.
std::vector<std::string_view> functions_in(std::span<const std::byte> cubin);

// Returns the function's index in the symbol table; nothing if there is none.
std::optional<uint64_t> symbol_of(std::span<const std::byte> cubin, std::string_view function);

// Returns the content of the first section of this name; empty if there is none.
std::span<const std::byte> section_of(std::span<const std::byte> cubin, std::string_view name);

// Memory of the device that the cubin's own code names: what is declared __device__ or __managed__, but no constants.
struct Variable {
  std::string_view name;
  uint64_t bytes = 0;
};
std::vector<Variable> variables_in(std::span<const std::byte> cubin);
// Returns what is declared __constant__.
std::vector<Variable> constants_in(std::span<const std::byte> cubin);

// Returns the variables whose addresses the driver is to write into a section, and at which offset.
std::multimap<uint64_t, Variable> variables_relocated_in(std::span<const std::byte> cubin, std::string_view section);

// Returns the functions that a kernel may run, as views into the cubin: itself, and all that are no kernels.
std::vector<std::string_view> functions_run_by(std::span<const std::byte> cubin, std::string_view kernel);

// Returns the functions outside of the cubin that a kernel may call: vprintf, malloc, __assertfail, ...
std::set<std::string_view> functions_called_by(std::span<const std::byte> cubin, std::string_view kernel);

// Returns where in constant bank 0 the kernel's parameters begin, in bytes; nothing if the cubin does not say.
std::optional<unsigned> parameters_begin(std::span<const std::byte> cubin, std::string_view kernel);

// Returns the sizes of the kernel's parameters, in bytes; none if the cubin does not say.
std::vector<unsigned> parameter_sizes(std::span<const std::byte> cubin, std::string_view kernel);

// Returns the function's machine code; empty if there is none.
std::span<const std::byte> code_of(std::span<const std::byte> cubin, std::string_view function);

}  // namespace msda::record
