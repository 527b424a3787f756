/* The backward passes of torchvision's roi_pool, ps_roi_pool and ps_roi_align, in libmsda: the gradient of feature maps
 * that boxes were cut out of. Arithmetic, errors and options are those of msda.h; the modes are deterministic and
 * float64.
 *
 * Shapes. N images, C channels, K boxes, each of which is divided into h times w bins.
 *
 *     grad_input      [N,C,H,W]
 *     boxes           [K,5]        (image, x1, y1, x2, y2)
 *     grad_output     [K,C,h,w]; of the position-sensitive ones [K,C/(h*w),h,w]
 *     indices         its shape, int32, contiguous
 *
 * docs/determinism.md gives every operation and its order.
 */
#pragma once

#include "kernels/msda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum msda_roi_pooling MSDA_ENUM_TYPE {
  MSDA_ROI_MAX = 0,     /* roi_pool: a bin's gradient goes to its maximum, pixel number indices[..]; -1: to none */
  MSDA_ROI_PS_MEAN = 1, /* ps_roi_pool: bin (i,j) of channel c is the mean of pixels of channel (c*h+i)*w+j, which
                           indices name in torchvision and nobody reads here */
  MSDA_ROI_PS_ALIGN = 2 /* ps_roi_align: the mean of points between the pixels of that channel */
} msda_roi_pooling;

typedef struct msda_roi_pool_call {
  msda_roi_pooling pooling;
  int32_t sampling_ratio; /* of MSDA_ROI_PS_ALIGN, as in roi_align.h */
  double spatial_scale;   /* from the boxes' units to pixels */
  msda_tensor boxes;
  msda_tensor grad_output;
  msda_tensor indices;
} msda_roi_pool_call;

/* grad_input, overwritten whole. `options` may be null. A box of no image, or a maximum outside it, is an error. */
MSDA_API msda_status msda_roi_pool_backward(const msda_roi_pool_call* call, const msda_options* options,
                                            const msda_tensor* grad_input);

/* The same on the current GPU, with the same bits; all tensors are in memory of that GPU. The work is enqueued on
 * `stream`, a cudaStream_t (null: the default stream), and the function does not wait for it: boxes of no image, and
 * maxima outside it, are left out. `threads` is ignored. */
MSDA_API msda_status msda_cuda_roi_pool_backward(const msda_roi_pool_call* call, const msda_options* options,
                                                 const msda_tensor* grad_input, void* stream);

#ifdef __cplusplus
}
#endif
