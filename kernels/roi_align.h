/* The backward pass of ROIAlign, in libmsda: the gradient of feature maps that boxes were cut out of, as torchvision,
 * mmcv and Detectron2 do. Arithmetic, errors and options are those of msda.h; the modes are deterministic and float64.
 *
 * Shapes. N images, C channels, K boxes, each of which is divided into h times w bins.
 *
 *     grad_input      [N,C,H,W]
 *     boxes           [K,5]        (image, x1, y1, x2, y2)
 *     grad_output     [K,C,h,w]
 *
 * docs/determinism.md gives every operation and its order.
 */
#pragma once

#include "kernels/msda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msda_roi_align_call {
  double spatial_scale;   /* from the boxes' units to pixels */
  int32_t sampling_ratio; /* points of a bin along each axis; 0: as many as it is long, rounded up, at most 2^20 */
  int32_t aligned;        /* 1: pixel centres are half a pixel off, and boxes may be narrower than a pixel */
  msda_tensor boxes;
  msda_tensor grad_output;
} msda_roi_align_call;

/* grad_input, overwritten whole. `options` may be null. A box of no image is an error. */
MSDA_API msda_status msda_roi_align_backward(const msda_roi_align_call* call, const msda_options* options,
                                             const msda_tensor* grad_input);

/* The same on the current GPU, with the same bits, for at most 32 bins along each axis; all tensors are in memory of
 * that GPU. The work is enqueued on `stream`, a cudaStream_t (null: the default stream), and the function does not wait
 * for it: boxes of no image are left out. `threads` is ignored. */
MSDA_API msda_status msda_cuda_roi_align_backward(const msda_roi_align_call* call, const msda_options* options,
                                                  const msda_tensor* grad_input, void* stream);

#ifdef __cplusplus
}
#endif
