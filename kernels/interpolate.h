/* The backward pass of PyTorch's interpolate, in libmsda: the gradient of an image that was resized. Arithmetic, errors
 * and options are those of msda.h; the modes are deterministic and float64.
 *
 * Shapes. N images, C channels, and 1 to 3 sides, of which the last is x; sides are at least one pixel.
 *
 *     grad_input      [N,C,W]  [N,C,H,W]  [N,C,D,H,W]     the image's sides
 *     grad_output     [N,C,w]  [N,C,h,w]  [N,C,d,h,w]
 *
 * docs/determinism.md gives every operation and its order.
 */
#pragma once

#include "kernels/msda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum msda_resize MSDA_ENUM_TYPE {
  MSDA_RESIZE_NEAREST = 0,
  MSDA_RESIZE_NEAREST_EXACT = 1,
  MSDA_RESIZE_LINEAR = 2, /* bilinear with two sides, trilinear with three */
  MSDA_RESIZE_CUBIC = 3   /* along every side; Keys' polynomial with -0.75 */
} msda_resize;

typedef struct msda_interpolate_call {
  msda_resize mode;
  int32_t align_corners; /* 0 or 1; nearest pixels do not depend on it */
  double scale[3];       /* of x, y, z: the factor that was given; 0: none, the sizes give it */
  msda_tensor grad_output;
} msda_interpolate_call;

/* grad_input, overwritten whole. `options` may be null. */
MSDA_API msda_status msda_interpolate_backward(const msda_interpolate_call* call, const msda_options* options,
                                               const msda_tensor* grad_input);

/* The same on the current GPU, with the same bits; all tensors are in memory of that GPU. The work is enqueued on
 * `stream`, a cudaStream_t (null: the default stream), and the function does not wait for it. `threads` is ignored. */
MSDA_API msda_status msda_cuda_interpolate_backward(const msda_interpolate_call* call, const msda_options* options,
                                                    const msda_tensor* grad_input, void* stream);

#ifdef __cplusplus
}
#endif
