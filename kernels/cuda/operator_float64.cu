#include "kernels/cuda/operator.cuh"

namespace msda::kernels::cuda {
template struct Operator<double, double>;
}
