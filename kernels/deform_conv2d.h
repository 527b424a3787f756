/* The backward pass of torchvision's deform_conv2d, in libmsda, without its matrix products. Arithmetic, errors and
 * options are those of msda.h; the modes are deterministic and float64.
 *
 * Sample (i,j) of the kernel for output pixel (y,x) reads the image at
 *
 *     (y*stride - padding + i*dilation + offset, the same along x)
 *
 * by bilinear interpolation, 0 outside; a mask multiplies what it reads. The convolution is a matrix product of these
 * columns.
 *
 * Shapes. N images, C channels, G groups of channels that share offsets, a kernel of P = kernel[0]*kernel[1] pixels,
 * h times w output pixels.
 *
 *     input, grad_input         [N,C,H,W]
 *     offset, grad_offset       [N,G*P*2,h,w]   (y, x)
 *     mask, grad_mask           [N,G*P,h,w]
 *     columns, grad_columns     [N,C,P,h*w]
 *
 * All are contiguous, and of one type. docs/determinism.md gives every operation and its order.
 */
#pragma once

#include "kernels/msda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msda_deform_conv2d_call {
  int32_t kernel[2]; /* each along y, x */
  int32_t stride[2];
  int32_t padding[2];
  int32_t dilation[2];
  int32_t groups;
  msda_tensor input;
  msda_tensor offset;
  msda_tensor mask;         /* of rank 0: none */
  msda_tensor grad_columns; /* of the masked columns */
} msda_deform_conv2d_call;

/* The gradients, and the masked columns, for the gradient of the weight; each is overwritten whole. `options`, and
 * without a mask grad_mask, may be null. */
MSDA_API msda_status msda_deform_conv2d_backward(const msda_deform_conv2d_call* call, const msda_options* options,
                                                 const msda_tensor* grad_input, const msda_tensor* grad_offset,
                                                 const msda_tensor* grad_mask, const msda_tensor* columns);

/* The same on the current GPU, with the same bits; all tensors are in memory of that GPU. The work is enqueued on
 * `stream`, a cudaStream_t (null: the default stream), and the function does not wait for it. `threads` is ignored. */
MSDA_API msda_status msda_cuda_deform_conv2d_backward(const msda_deform_conv2d_call* call, const msda_options* options,
                                                      const msda_tensor* grad_input, const msda_tensor* grad_offset,
                                                      const msda_tensor* grad_mask, const msda_tensor* columns,
                                                      void* stream);

#ifdef __cplusplus
}
#endif
