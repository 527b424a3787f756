// Tensors in the structures of libmsda's C ABI.
#pragma once

#include "analysis/numbers/tensor.h"
#include "kernels/msda.h"

namespace msda::analysis {

msda_tensor abi_tensor(const Tensor& tensor);

// Throws std::bad_alloc, or std::runtime_error with libmsda's message.
void throw_unless_ok(msda_status status);

}  // namespace msda::analysis
