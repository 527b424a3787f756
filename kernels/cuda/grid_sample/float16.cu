#include "kernels/cuda/grid_sample/operator.cuh"

namespace msda::kernels::cuda {
template struct GridOperator<__half, float>;
}
