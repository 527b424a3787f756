// Elements of a tensor whose type is known only when the program runs.
#pragma once

#include "kernels/msda.h"
#include "kernels/storage.h"

namespace msda::kernels {

// Calls visit(static_cast<const T*>(data)) with the C++ type of a floating-point `dtype`.
template <class Visit>
auto visit_dtype(msda_dtype dtype, Visit&& visit, const void* data = nullptr) {
  switch (dtype) {
    case MSDA_FLOAT16:
      return visit(static_cast<const Float16*>(data));
    case MSDA_BFLOAT16:
      return visit(static_cast<const BFloat16*>(data));
    case MSDA_FLOAT64:
      return visit(static_cast<const double*>(data));
    default:
      return visit(static_cast<const float*>(data));
  }
}

}  // namespace msda::kernels
