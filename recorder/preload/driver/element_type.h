// Guesses the element type of a kernel's tensors from its machine code, if neither its name nor its parameters show it.
// A wrong guess does no harm: tensors are never read beyond their allocation, and the writer checks the guess against
// the recorded outputs.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/msda.h"

namespace msda::record {

// Returns, for code for sm_70 and later, float64 if it computes in float64; float16, which may be bfloat16, if it
// rounds to 16 bits; otherwise float32.
msda_dtype element_type_of(std::span<const std::byte> code);

}  // namespace msda::record
