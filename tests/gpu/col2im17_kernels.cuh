// Kernels with the names and the 17 parameters of Deformable DETR's backward kernels, and the operator's definition as
// their arithmetic: a thread for each sample, which adds to grad_value and owns the other gradients' elements. So all
// but grad_value has the same bits in every launch.
#pragma once

#include <cstdint>
#include <cuda_fp16.h>

// A half as PyTorch names it: the recorder knows the element type by the kernel's mangled name.
namespace c10 {
struct alignas(2) Half {
  unsigned short x;
  Half() = default;
  __host__ __device__ Half(float value) : x(__half_as_ushort(__float2half(value))) {}
  __host__ __device__ operator float() const { return __half2float(__ushort_as_half(x)); }
};
}  // namespace c10

namespace gpu {

template <class T>
struct Arithmetic {
  using type = T;
};
template <>
struct Arithmetic<c10::Half> {
  using type = float;
};

template <class T>
struct Call {
  int n;
  const T *grad_output, *value;
  const int64_t *spatial_shapes, *level_start_index;
  const T *sampling_locations, *attention_weights;
  int B, S, M, D, L, Q, P;
  T *grad_value, *grad_sampling_locations, *grad_attention_weights;
};

template <class T>
__host__ __device__ void add(T* to, T addend) {
#ifdef __CUDA_ARCH__
  atomicAdd(to, addend);
#else
  *to += addend;
#endif
}
__host__ __device__ inline void add(c10::Half* to, c10::Half addend) {
#ifdef __CUDA_ARCH__
  atomicAdd(reinterpret_cast<__half*>(to), __ushort_as_half(addend.x));
#else
  *to = static_cast<float>(*to) + static_cast<float>(addend);
#endif
}

template <class T>
__host__ __device__ void differentiate(const Call<T>& call, int64_t sample) {
  using A = typename Arithmetic<T>::type;
  const int64_t l = sample / call.P % call.L, row = sample / call.P / call.L, m = row % call.M;
  const int64_t b = row / call.M / call.Q;
  const int64_t height = call.spatial_shapes[2 * l], width = call.spatial_shapes[2 * l + 1];
  const A x = static_cast<A>(call.sampling_locations[2 * sample]) * static_cast<A>(width) - A(0.5);
  const A y = static_cast<A>(call.sampling_locations[2 * sample + 1]) * static_cast<A>(height) - A(0.5);
  A grad_x = 0, grad_y = 0, grad_attention = 0;
  if (x > A(-1) && y > A(-1) && x < static_cast<A>(width) && y < static_cast<A>(height)) {
    const A left = floor(x), top = floor(y), attention = call.attention_weights[sample];
    for (int corner = 0; corner < 4; ++corner) {
      const int right = corner % 2, low = corner / 2;
      const int64_t column = static_cast<int64_t>(left) + right, line = static_cast<int64_t>(top) + low;
      if (column < 0 || line < 0 || column >= width || line >= height) continue;
      const A across = right ? x - left : 1 - (x - left), down = low ? y - top : 1 - (y - top);
      const int64_t at = ((b * call.S + call.level_start_index[l] + line * width + column) * call.M + m) * call.D;
      A product = 0;
      for (int64_t d = 0; d < call.D; ++d) {
        const A grad_output = call.grad_output[row * call.D + d];
        product += grad_output * static_cast<A>(call.value[at + d]);
        add(call.grad_value + at + d, static_cast<T>(across * down * (grad_output * attention)));
      }
      grad_attention += across * down * product;
      grad_x += (right ? attention : -attention) * down * product * static_cast<A>(width);
      grad_y += (low ? attention : -attention) * across * product * static_cast<A>(height);
    }
  }
  call.grad_sampling_locations[2 * sample] = static_cast<T>(grad_x);
  call.grad_sampling_locations[2 * sample + 1] = static_cast<T>(grad_y);
  call.grad_attention_weights[sample] = static_cast<T>(grad_attention);
}

template <class T>
__host__ __device__ int64_t samples_of(const Call<T>& call) {
  return int64_t{call.B} * call.Q * call.M * call.L * call.P;
}

// Works with any number of threads.
template <class T>
__device__ void differentiate_all(const Call<T>& call) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < samples_of(call); i += step) {
    differentiate(call, i);
  }
}

}  // namespace gpu

#define COL2IM17_PARAMETERS                                                                                        \
  const int n, const scalar_t *grad_col, const scalar_t *data_value, const int64_t *data_spatial_shapes,           \
      const int64_t *data_level_start_index, const scalar_t *data_sampling_loc, const scalar_t *data_attn_weight,  \
      const int batch_size, const int spatial_size, const int num_heads, const int channels, const int num_levels, \
      const int num_query, const int num_point, scalar_t *grad_value, scalar_t *grad_sampling_loc,                 \
      scalar_t *grad_attn_weight
#define COL2IM17_BODY                                                                                            \
  {                                                                                                              \
    gpu::differentiate_all<scalar_t>({n, grad_col, data_value, data_spatial_shapes, data_level_start_index,      \
                                      data_sampling_loc, data_attn_weight, batch_size, spatial_size, num_heads,  \
                                      channels, num_levels, num_query, num_point, grad_value, grad_sampling_loc, \
                                      grad_attn_weight});                                                        \
  }

template <typename scalar_t, unsigned int blockSize>
__global__ void ms_deformable_col2im_gpu_kernel_shm_blocksize_aware_reduce_v1(COL2IM17_PARAMETERS) COL2IM17_BODY

    template <typename scalar_t, unsigned int blockSize>
    __global__ void ms_deformable_col2im_gpu_kernel_shm_blocksize_aware_reduce_v2(COL2IM17_PARAMETERS) COL2IM17_BODY

    template <typename scalar_t>
    __global__ void ms_deformable_col2im_gpu_kernel_shm_reduce_v1(COL2IM17_PARAMETERS) COL2IM17_BODY

    template <typename scalar_t>
    __global__ void ms_deformable_col2im_gpu_kernel_shm_reduce_v2(COL2IM17_PARAMETERS) COL2IM17_BODY

    template <typename scalar_t>
    __global__ void ms_deformable_col2im_gpu_kernel_shm_reduce_v2_multi_blocks(COL2IM17_PARAMETERS) COL2IM17_BODY

    template <typename scalar_t>
    __global__ void ms_deformable_col2im_gpu_kernel_gm(COL2IM17_PARAMETERS) COL2IM17_BODY
