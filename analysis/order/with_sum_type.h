// Runs a search in the type of a sum.
#pragma once

#include "analysis/order/sum_types.h"
#include "kernels/msda.h"

namespace msda::analysis {

template <class Run>
auto with_sum_type(msda_dtype type, Run&& run) {
  switch (type) {
    case MSDA_FLOAT16:
      return run(Float16Sum{});
    case MSDA_BFLOAT16:
      return run(BFloat16Sum{});
    case MSDA_FLOAT64:
      return run(Float64Sum{});
    default:
      return run(Float32Sum{});
  }
}

}  // namespace msda::analysis
