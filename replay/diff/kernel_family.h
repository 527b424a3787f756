// Which library or compiler a kernel comes from, by its name.
#pragma once

#include <string_view>

namespace msda::replay {

// Returns whether the kernel is cuDNN's, cuBLAS's or CUTLASS's, which choose among many kernels for one operation.
// Takes the demangled name.
bool is_of_library(std::string_view demangled);

// Returns whether Triton compiled the kernel: it then has the name of a Python function. Takes the name as the driver
// gives it.
bool is_of_triton(std::string_view name);

}  // namespace msda::replay
