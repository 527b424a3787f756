// Whose kernel it is, by its name.
#pragma once

#include <string_view>

namespace msda::replay {

// Of cuDNN, cuBLAS or CUTLASS, which choose among many kernels for one operation. Takes the demangled name.
bool is_of_library(std::string_view demangled);

// Of Triton, whose kernels have the names of Python functions. Takes the name as the driver tells it.
bool is_of_triton(std::string_view name);

}  // namespace msda::replay
