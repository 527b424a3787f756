// What launches of kernels have in common: blocks, errors, and arrays that are passed in a kernel's parameters.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "kernels/cuda/memory.h"
#include "kernels/cuda/problem.h"

namespace msda::kernels::cuda {

// Enqueues a kernel on a stream; throws CudaError if that fails. Without CUDA's compiler a program emulates the threads
// (tests/emulated_gpu), so that what a kernel computes can be tested on any machine.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), dim3 grid, int threads, int64_t shared_bytes,
            cudaStream_t stream, const Arguments&... arguments) {
#if defined(__CUDACC__)
  kernel<<<grid, static_cast<unsigned>(threads), static_cast<size_t>(shared_bytes), stream>>>(arguments...);
#else
  (void)stream;
  emulated_gpu::launch(grid, static_cast<unsigned>(threads), static_cast<size_t>(shared_bytes),
                       [&] { kernel(arguments...); });
#endif
  check(cudaGetLastError(), name);
}

// The current device.
struct Device {
  int processors = 0, shared_bytes = 0, l2_bytes = 0;
  Device() {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device), "cudaDeviceGetAttribute");
  }
};

// Bytes of shared memory that the blocks of every kernel can have, what the kernel declares included.
inline constexpr int64_t kSharedWithoutAsking = 48 << 10;

// Lets a kernel's blocks have as much shared memory as the current device can give one. Never what one launch needs:
// this is the function's state, which another thread may set between this and that launch.
template <class Kernel>
void allow_shared(Kernel* kernel) {
  cudaFuncAttributes own{};
  check(cudaFuncGetAttributes(&own, kernel), "cudaFuncGetAttributes");
  const int most = Device().shared_bytes - static_cast<int>(own.sharedSizeBytes);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most), "cudaFuncSetAttribute");
}

// For a kernel whose blocks each process several items.
inline unsigned blocks_for(int64_t items, int64_t of_a_block) {
  constexpr int64_t kMost = 65536;
  return static_cast<unsigned>(std::min(kMost, (items + of_a_block - 1) / of_a_block));
}

// The levels as a kernel finds them: in its parameters, or, if there are too many, at `far`, far_count() of them in a
// workspace.
inline int64_t far_count(int64_t levels) { return levels <= Levels::kNear ? 0 : levels; }
template <class T>
void hand_over(const std::vector<T>& values, T* far, const T*& far_field, T* near_field, cudaStream_t stream) {
  if (values.size() <= Levels::kNear) {
    std::copy(values.begin(), values.end(), near_field);
    far_field = nullptr;
    return;
  }
  check(cudaMemcpyAsync(far, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
  far_field = far;
}

}  // namespace msda::kernels::cuda
