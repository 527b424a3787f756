#include "kernels/cuda/grid_operator.cuh"

namespace msda::kernels::cuda {
template struct GridOperator<__half, float>;
}
