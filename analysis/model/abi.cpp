#include "analysis/model/abi.h"

#include <new>
#include <stdexcept>

namespace msda::analysis {

msda_tensor abi_tensor(const Tensor& tensor) {
  // The C ABI uses one type for inputs and results; it writes no input.
  return msda_contiguous(const_cast<void*>(tensor.data), tensor.dtype, static_cast<int32_t>(tensor.shape.size()),
                         tensor.shape.data());
}

void throw_unless_ok(msda_status status) {
  if (status == MSDA_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status != MSDA_OK) throw std::runtime_error(msda_last_error());
}

}  // namespace msda::analysis
