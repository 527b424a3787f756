// What the threads of a block share.
#pragma once

namespace msda::kernels::cuda {

inline constexpr int kWarp = 32;

// Returns the shared memory whose size is given at launch.
template <class T>
__device__ inline T* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ uint4 of_block[];
  return reinterpret_cast<T*>(of_block);
#else
  return static_cast<T*>(emulated_gpu::dynamic_shared());
#endif
}

}  // namespace msda::kernels::cuda
