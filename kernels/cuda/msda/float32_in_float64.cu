#include "kernels/cuda/msda/operator.cuh"

namespace msda::kernels::cuda {
template struct Operator<float, double>;
}
