// Runs a search in the arithmetic of a sum.
#pragma once

#include "analysis/order/problem.h"
#include "analysis/order/sum_types.h"

namespace msda::analysis {

template <class Run>
auto with_sum_type(const SumType& type, Run&& run) {
  switch (type.sum) {
    case MSDA_FLOAT16:
      return run(Float16Sum{});
    case MSDA_BFLOAT16:
      return run(BFloat16Sum{});
    case MSDA_FLOAT64:
      return run(Float64Sum{});
    default:
      return type.flushes ? run(FlushingFloat32Sum{}) : run(Float32Sum{});
  }
}

}  // namespace msda::analysis
