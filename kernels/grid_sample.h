/* The backward pass of PyTorch's grid_sample, in libmsda. Arithmetic, errors and options are those of msda.h.
 *
 * Every sample of the grid names a place in the image; the forward pass interpolates the image's pixels there:
 *
 *     output[n,c,s] = sum over pixels t of  weight(grid[n,s], t) * input[n,c,t]
 *
 * Shapes. N batches, C channels, D depth (in 3D only), H height, W width; any but those of the image may be zero.
 *
 *     input, grad_input          [N,C,H,W]       or [N,C,D,H,W]
 *     grid, grad_grid            [N,h,w,2]       or [N,d,h,w,3]; (x, y) or (x, y, z), -1 is one edge, 1 the other
 *     grad_output                [N,C,h,w]       or [N,C,d,h,w]
 *
 * docs/determinism.md gives every operation and its order.
 */
#pragma once

#include "kernels/msda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum msda_interpolation MSDA_ENUM_TYPE {
  MSDA_BILINEAR = 0, /* in 3D: trilinear */
  MSDA_NEAREST = 1,  /* ties to even */
  MSDA_BICUBIC = 2   /* 2D only; Keys' polynomial with -0.75 */
} msda_interpolation;

typedef enum msda_grid_padding MSDA_ENUM_TYPE {
  MSDA_GRID_ZEROS = 0,
  MSDA_GRID_BORDER = 1,
  MSDA_GRID_REFLECTION = 2,
  MSDA_GRID_PIXELS = 3 /* zeros, and the grid is in pixels: 0 is the first one's centre, as in deform_conv2d */
} msda_grid_padding;

/* The intermediate tensors of the backward pass whose precision msda_options::float64_stages chooses, by the bit
 * (1 << stage), in the mode MSDA_MODE_MIXED. */
typedef enum msda_grid_stage_id MSDA_ENUM_TYPE {
  MSDA_GRID_STAGE_PIXEL_COORDINATES = 0, /* also where padding moves them, and their distance from the pixel below */
  MSDA_GRID_STAGE_INTERPOLATION_WEIGHTS = 1,
  MSDA_GRID_STAGE_GRAD_GRID = 2,           /* the sum over channels */
  MSDA_GRID_STAGE_INPUT_CONTRIBUTIONS = 3, /* the addends of grad_input */
  MSDA_GRID_STAGE_GRAD_INPUT = 4,          /* the scatter sum */
  MSDA_GRID_STAGE_COUNT = 5
} msda_grid_stage_id;

typedef struct msda_grid_sample_call {
  msda_interpolation interpolation;
  msda_grid_padding padding;
  int32_t align_corners; /* 0 or 1 */
  msda_tensor input;
  msda_tensor grid;
} msda_grid_sample_call;

/* Both gradients, each overwritten whole; a null pointer skips that one. `options` may be null. */
MSDA_API msda_status msda_grid_sample_backward(const msda_grid_sample_call* call, const msda_tensor* grad_output,
                                               const msda_options* options, const msda_tensor* grad_input,
                                               const msda_tensor* grad_grid);

/* The same on the current GPU, for bilinear and nearest interpolation and all modes but MSDA_MODE_MIXED; all tensors
 * are in memory of that GPU. The work is enqueued on `stream`, a cudaStream_t (null: the default stream), and the
 * function does not wait for it. The bits equal those of the function above, except in MSDA_MODE_ATOMIC, which sums in
 * the order in which the additions arrive. `threads` and `seed` are ignored. */
MSDA_API msda_status msda_cuda_grid_sample_backward(const msda_grid_sample_call* call, const msda_tensor* grad_output,
                                                    const msda_options* options, const msda_tensor* grad_input,
                                                    const msda_tensor* grad_grid, void* stream);

/* "bilinear", "zeros", "grad_grid", ...; "?" for others. */
MSDA_API const char* msda_interpolation_name(msda_interpolation interpolation);
MSDA_API const char* msda_grid_padding_name(msda_grid_padding padding);
MSDA_API const char* msda_grid_stage_name(msda_grid_stage_id stage);

#ifdef __cplusplus
}
#endif
