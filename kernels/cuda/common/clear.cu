#include "kernels/cuda/common/clear.h"
#include "kernels/cuda/common/launch.cuh"

namespace msda::kernels::cuda {
namespace {

constexpr int kThreads = 256, kOfThread = 4;

// Clears four words at a time; `head` bytes before them, and `tail` after them.
__global__ void __launch_bounds__(kThreads) clear_kernel(char* data, int64_t head, int64_t fours, int64_t tail) {
  const int64_t first = int64_t{blockIdx.x} * kThreads + threadIdx.x, step = int64_t{gridDim.x} * kThreads;
  auto* const whole = reinterpret_cast<uint4*>(data + head);
  for (int64_t i = first; i < fours; i += step) whole[i] = uint4{0, 0, 0, 0};
  if (first < head) data[first] = 0;
  if (first < tail) data[head + fours * int64_t{sizeof(uint4)} + first] = 0;
}

}  // namespace

void clear(void* data, int64_t bytes, Work& work) {
  if (bytes == 0) return;
  constexpr int64_t kFour = sizeof(uint4);
  const auto beyond = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) % kFour);
  const int64_t head = std::min(bytes, (kFour - beyond) % kFour), fours = (bytes - head) / kFour;
  launch("clear_kernel", clear_kernel, blocks_for(std::max<int64_t>(fours, 1), kThreads * kOfThread), kThreads, 0, work,
         static_cast<char*>(data), head, fours, bytes - head - fours * kFour);
}

}  // namespace msda::kernels::cuda
