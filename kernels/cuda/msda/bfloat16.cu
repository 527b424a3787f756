#include "kernels/cuda/msda/operator.cuh"

namespace msda::kernels::cuda {
template struct Operator<__nv_bfloat16, float>;
}
