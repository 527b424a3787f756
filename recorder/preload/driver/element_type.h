// The element type of a kernel's tensors, guessed from its machine code, where neither its name nor its parameters tell
// it. A guess is all it is: tensors are read no further than their memory goes, and the writer holds the guess against
// the recorded outputs.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/msda.h"

namespace msda::record {

// Of code for sm_70 and later: float64 if it computes in it; float16, which may be bfloat16, if it rounds to 16 bits;
// otherwise float32.
msda_dtype element_type_of(std::span<const std::byte> code);

}  // namespace msda::record
