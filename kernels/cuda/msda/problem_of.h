// From a checked call to what the CUDA kernels take.
#pragma once

#include "kernels/checked/call.h"
#include "kernels/cuda/common/call.h"
#include "kernels/cuda/msda/problem.h"

namespace msda::kernels::cuda {

template <class Stored>
Problem<Stored> problem_of(const CheckedCall& checked, const Input& value, const Input& locations,
                           const Input& weights) {
  Problem<Stored> p{};
  p.B = checked.B;
  p.S = checked.S;
  p.M = checked.M;
  if (p.M > 0) p.by_M = Division(p.M);
  p.D = checked.D;
  p.L = checked.L;
  p.Q = checked.Q;
  p.P = checked.P;
  p.dialect = checked.dialect;
  p.padding = checked.padding;
  p.align_corners = checked.align_corners;
  p.value = value.data<Stored>();
  p.sampling_locations = locations.data<Stored>();
  p.attention_weights = weights.data<Stored>();
  return p;
}

}  // namespace msda::kernels::cuda
