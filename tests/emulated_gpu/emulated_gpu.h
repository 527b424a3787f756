// What the CUDA kernels (kernels/cuda/) need of a GPU, for a C++ compiler; included before everything else. A block's
// threads are fibers, which switch where they wait for one another; blocks run one after the other. This tests the
// kernels' logic and bits without a GPU, but not their timing, nor what threads see of each other's memory without a
// barrier.
#pragma once

#include <cuda_runtime_api.h>
#include <vector_functions.h>
#include <vector_types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __grid_constant__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)

namespace emulated_gpu {

inline constexpr unsigned kWarp = 32;

// Calls `thread` once for each thread of each block, with the four variables below set; from one thread at a time.
void launch(dim3 grid, unsigned threads, size_t shared_bytes, const std::function<void()>& thread);
void* dynamic_shared();

// A kernel with its parameters, whose values are copied.
using Bound = std::function<void()>;
// Remembers how to bind a kernel to parameters of which there are only pointers, as CUDA's runtime takes them.
void remember(const void* kernel, std::function<Bound(void**)> bind);
Bound bound(const void* kernel, void** parameters);
template <class... Parameters>
void know(void (*kernel)(Parameters...)) {
  remember(reinterpret_cast<const void*>(kernel), [kernel](void** parameters) {
    return [&]<size_t... kAt>(std::index_sequence<kAt...>) {
      const std::tuple<Parameters...> values{*static_cast<Parameters*>(parameters[kAt])...};
      return Bound([kernel, values] { std::apply(kernel, values); });
    }
    (std::index_sequence_for<Parameters...>());
  });
}

void block_barrier();
void warp_barrier();
void lanes_barrier(unsigned lanes);  // of a warp, or of eight adjacent lanes of it
unsigned lane();
uint64_t* warp_slots();  // one for each lane of this warp

// The value of lane `from`. All of `lanes` must call it, and `from` is one of them.
template <class T>
T exchange(unsigned lanes, T given, unsigned from) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  std::memcpy(&warp_slots()[lane()], &given, sizeof(T));
  lanes_barrier(lanes);
  T got;
  std::memcpy(&got, &warp_slots()[from % kWarp], sizeof(T));
  lanes_barrier(lanes);
  return got;
}

// A bit for each lane for whose value `is` returns true.
template <class Is>
unsigned vote(uint64_t given, Is is) {
  warp_slots()[lane()] = given;
  warp_barrier();
  unsigned lanes = 0;
  for (unsigned i = 0; i < kWarp; ++i) lanes |= is(warp_slots()[i]) ? 1u << i : 0u;
  warp_barrier();
  return lanes;
}

}  // namespace emulated_gpu

extern uint3 threadIdx, blockIdx;
extern dim3 gridDim, blockDim;

inline void __syncthreads() { emulated_gpu::block_barrier(); }
inline int __syncthreads_or(int given) {
  static int found;
  found = 0;
  __syncthreads();
  if (given != 0) found = 1;
  __syncthreads();
  const int any = found;
  __syncthreads();
  return any;
}
inline void __threadfence() {}
inline void __syncwarp() { emulated_gpu::warp_barrier(); }
template <class T>
T __shfl_sync(unsigned lanes, T given, int from, int width = 32) {
  const unsigned lane = emulated_gpu::lane(), w = static_cast<unsigned>(width);
  return emulated_gpu::exchange(lanes, given, lane / w * w + static_cast<unsigned>(from) % w);
}
template <class T>
T __shfl_xor_sync(unsigned lanes, T given, int bits) {
  return emulated_gpu::exchange(lanes, given, emulated_gpu::lane() ^ static_cast<unsigned>(bits));
}
template <class T>
T __shfl_up_sync(unsigned lanes, T given, int by) {
  const unsigned lane = emulated_gpu::lane(), b = static_cast<unsigned>(by);
  return emulated_gpu::exchange(lanes, given, lane >= b ? lane - b : lane);
}
inline unsigned __ballot_sync(unsigned, bool given) {
  return emulated_gpu::vote(given ? 1 : 0, [](uint64_t of_lane) { return of_lane != 0; });
}
inline bool __any_sync(unsigned lanes, bool given) { return __ballot_sync(lanes, given) != 0; }
inline unsigned __match_any_sync(unsigned, int given) {
  const auto mine = static_cast<uint32_t>(given);
  return emulated_gpu::vote(mine, [mine](uint64_t of_lane) { return of_lane == mine; });
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline float __int_as_float(int bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
inline double __longlong_as_double(long long bits) {
  double x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
inline float __double2float_rn(double x) { return static_cast<float>(x); }

// Fibers do not interrupt one another.
template <class T>
T atomicAdd(T* at, T addend) {
  const T before = *at;
  *at = before + addend;
  return before;
}
template <class T>
T atomicExch(T* at, T with) {
  return std::exchange(*at, with);
}
inline uint32_t atomicMax(uint32_t* at, uint32_t another) { return std::exchange(*at, std::max(*at, another)); }
inline uint32_t atomicOr(uint32_t* at, uint32_t bits) { return std::exchange(*at, *at | bits); }

namespace msda::kernels::cuda {
using std::max;
using std::min;
}  // namespace msda::kernels::cuda
