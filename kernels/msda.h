/* Multi-scale deformable attention, forward and backward: the C ABI of libmsda.
 *
 * The operator (Deformable DETR, arXiv:2010.04159): every query q of head m looks at P points on each of L pyramid
 * levels, reads the value there by bilinear interpolation, and sums what it read with its attention weights:
 *
 *     output[b,q,m,:] = sum over l, p of  attention_weights[b,q,m,l,p] * sample(l, sampling_locations[b,q,m,l,p])
 *
 * Shapes. B batch, S pyramid pixels, M heads, D channels a head, L levels, Q queries, P points; any may be zero.
 *
 *     value                    [B,S,M,D]         every level's pixels, row by row, one level after the other
 *     spatial_shapes           [L,2]             (height, width) of each level, in pixels; int32 or int64
 *     level_start_index        [L]               first pixel of each level; int32 or int64; rank 0 means: derive it
 *     sampling_locations       [B,Q,M,L,P,2]     (x, y), normalized: 0 is one edge of the level, 1 the other
 *     attention_weights        [B,Q,M,L,P]
 *     output, grad_output      [B,Q,M,D]
 *     grad_*                   as what they are the gradient of
 *
 * Arithmetic. The computation runs in float32, or in float64 when any floating-point input is float64 or the mode asks
 * for it; float16 and bfloat16 are only storage. Inputs are never rounded to a narrower type. The result is rounded
 * once, to nearest even, into the type of the output tensor. docs/determinism.md gives every operation and its order.
 *
 * Every function returns MSDA_OK or an error code; msda_last_error() says in one line what was wrong. A function that
 * fails has written nothing, or, for MSDA_OUT_OF_MEMORY, possibly part of the outputs. All functions are thread-safe.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MSDA_API __attribute__((visibility("default")))
#else
#define MSDA_API
#endif

/* In C++ every int32 is a value of these types, so that the functions can check and refuse invalid ones. */
#ifdef __cplusplus
#define MSDA_ENUM_TYPE : int32_t
#else
#define MSDA_ENUM_TYPE
#endif

enum { MSDA_MAX_RANK = 7 };

typedef enum msda_status MSDA_ENUM_TYPE {
  MSDA_OK = 0,
  MSDA_INVALID_ARGUMENT = 1, /* an invalid shape, type, pointer or option; the message names it */
  MSDA_OUT_OF_MEMORY = 2,
  MSDA_INTERNAL_ERROR = 3, /* a bug in libmsda */
  MSDA_UNAVAILABLE = 4,    /* no GPU, a library built without CUDA, or a call that only the CPU's functions accept */
  MSDA_CUDA_ERROR = 5      /* an error of the CUDA runtime, which may stem from earlier work of the same process */
} msda_status;

typedef enum msda_dtype MSDA_ENUM_TYPE {
  MSDA_FLOAT16 = 0,
  MSDA_BFLOAT16 = 1,
  MSDA_FLOAT32 = 2,
  MSDA_FLOAT64 = 3,
  MSDA_INT32 = 4,
  MSDA_INT64 = 5
} msda_dtype;

/* The conventions of a kernel family. They decide where a location lands, and so they change bits. */
typedef enum msda_dialect MSDA_ENUM_TYPE {
  /* pixel = fma(location, size, -0.5); zeros; a sample outside (-1, size) is skipped */
  MSDA_DEFORMABLE_DETR = 0,
  /* pixel = location*size - 0.5, aligned location*(size-1); at the border the index is clamped */
  MSDA_MSDA_TRITON = 1,
  /* g = 2*location - 1; pixel = ((g+1)*size - 1)/2, aligned (g+1)/2*(size-1); at the border the pixel is clipped */
  MSDA_GRID_SAMPLE = 2
} msda_dialect;

typedef enum msda_padding MSDA_ENUM_TYPE { MSDA_PADDING_ZEROS = 0, MSDA_PADDING_BORDER = 1 } msda_padding;

/* The intermediate tensors of the backward pass, in order. msda_stage() and msda_stages() return any of them. */
typedef enum msda_stage_id MSDA_ENUM_TYPE {
  MSDA_STAGE_PIXEL_COORDINATES = 0,       /* [B,Q,M,L,P,2]   (x, y) in pixels, before any clipping */
  MSDA_STAGE_CELL = 1,                    /* [B,Q,M,L,P,2]   (x, y) of the pixel at the cell's upper left corner */
  MSDA_STAGE_INTERPOLATION_WEIGHTS = 2,   /* [B,Q,M,L,P,4]   of the corners (y0,x0) (y0,x1) (y1,x0) (y1,x1) */
  MSDA_STAGE_CORNER_VALUES = 3,           /* [B,Q,M,L,P,4,D] */
  MSDA_STAGE_SAMPLED_VALUE = 4,           /* [B,Q,M,L,P,D] */
  MSDA_STAGE_GRAD_ATTENTION_WEIGHTS = 5,  /* [B,Q,M,L,P] */
  MSDA_STAGE_GRAD_SAMPLING_LOCATIONS = 6, /* [B,Q,M,L,P,2] */
  MSDA_STAGE_VALUE_CONTRIBUTIONS = 7,     /* [B,Q,M,L,P,4,D] the addends of grad_value */
  MSDA_STAGE_GRAD_VALUE = 8,              /* [B,S,M,D]       the scatter sum */
  MSDA_STAGE_COUNT = 9
} msda_stage_id;

typedef enum msda_mode MSDA_ENUM_TYPE {
  MSDA_MODE_DETERMINISTIC = 0, /* one fixed order: the same bits on every run, thread count and machine */
  MSDA_MODE_ATOMIC = 1,        /* grad_value summed one addend at a time in an order drawn from `seed` */
  MSDA_MODE_FLOAT64 = 2,       /* all arithmetic in float64 on the given bits, deterministic order */
  MSDA_MODE_MIXED = 3          /* float32, but the stages named in `float64_stages` in float64; deterministic order */
} msda_mode;

/* A tensor in host memory. `stride` counts elements, not bytes, and may be anything that stays inside the allocation.
 */
typedef struct msda_tensor {
  void* data; /* may be null when a dimension is zero */
  msda_dtype dtype;
  int32_t rank;
  int64_t shape[MSDA_MAX_RANK];
  int64_t stride[MSDA_MAX_RANK];
} msda_tensor;

/* The inputs of one call, and the conventions it follows. */
typedef struct msda_call {
  msda_dialect dialect;
  msda_padding padding;  /* deformable_detr accepts zeros only */
  int32_t align_corners; /* 0 or 1; deformable_detr accepts 0 only */
  msda_tensor value;
  msda_tensor spatial_shapes;
  msda_tensor level_start_index;
  msda_tensor sampling_locations;
  msda_tensor attention_weights;
} msda_call;

/* All zero is the default: deterministic, on every core. */
typedef struct msda_options {
  msda_mode mode;
  int32_t threads;         /* 0: one a core; changes no bit of the result */
  uint64_t seed;           /* for MSDA_MODE_ATOMIC; the same seed gives the same bits on any thread count */
  uint32_t float64_stages; /* for MSDA_MODE_MIXED: bit (1 << stage) for each stage to compute in float64 */
} msda_options;

/* Makes a row-major tensor over `data`. A rank outside 0..MSDA_MAX_RANK gives a tensor that every function refuses. */
MSDA_API msda_tensor msda_contiguous(void* data, msda_dtype dtype, int32_t rank, const int64_t* shape);

/* output [B,Q,M,D]. `options` may be null. */
MSDA_API msda_status msda_forward(const msda_call* call, const msda_options* options, const msda_tensor* output);

/* The three gradients, each overwritten whole; a null pointer skips that one. `options` may be null. */
MSDA_API msda_status msda_backward(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
                                   const msda_tensor* grad_value, const msda_tensor* grad_sampling_locations,
                                   const msda_tensor* grad_attention_weights);

/* One intermediate tensor of the backward pass, with the shape given at its name above. Not for MSDA_MODE_ATOMIC. */
MSDA_API msda_status msda_stage(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
                                msda_stage_id stage, const msda_tensor* result);

/* Several of them in one pass over the samples: results[stage] for each stage that is wanted, null for the others. */
MSDA_API msda_status msda_stages(const msda_call* call, const msda_tensor* grad_output, const msda_options* options,
                                 const msda_tensor* const results[MSDA_STAGE_COUNT]);

/* The same on the current GPU. `spatial_shapes` and `level_start_index` are in host memory, all other tensors in memory
 * of that GPU. The work is enqueued on `stream`, a cudaStream_t (null: the default stream), and the functions do
 * not wait for it; errors of the work itself show later. Several kernels are enqueued as one CUDA graph, which is kept
 * for later calls, and so is memory of the device, up to 256 MiB for a GPU's first 16 streams, unless `stream` is being
 * captured into a graph. If a deterministic backward's intermediate sums exceed the second-level cache, half of the
 * heads then run beside the others. The bits equal those of the functions above, except in MSDA_MODE_ATOMIC, which sums
 * in the order in which the additions arrive. `threads` and `seed` are ignored. */
MSDA_API msda_status msda_cuda_forward(const msda_call* call, const msda_options* options, const msda_tensor* output,
                                       void* stream);
MSDA_API msda_status msda_cuda_backward(const msda_call* call, const msda_tensor* grad_output,
                                        const msda_options* options, const msda_tensor* grad_value,
                                        const msda_tensor* grad_sampling_locations,
                                        const msda_tensor* grad_attention_weights, void* stream);
MSDA_API msda_status msda_cuda_stages(const msda_call* call, const msda_tensor* grad_output,
                                      const msda_options* options, const msda_tensor* const results[MSDA_STAGE_COUNT],
                                      void* stream);

/* GPUs that this process can use; 0 if the library was built without CUDA. */
MSDA_API int32_t msda_cuda_device_count(void);

/* One line on the error of this thread's last call that did not return MSDA_OK; never null, valid until the next. */
MSDA_API const char* msda_last_error(void);

/* The names used everywhere for these values ("msda_triton", "border", "cell", "float32", ...); "?" for others. */
MSDA_API const char* msda_dialect_name(msda_dialect dialect);
MSDA_API const char* msda_padding_name(msda_padding padding);
MSDA_API const char* msda_stage_name(msda_stage_id stage);
MSDA_API const char* msda_mode_name(msda_mode mode);
MSDA_API const char* msda_dtype_name(msda_dtype dtype);

/* The code path that this machine's CPU runs: "x86_64_v4" (AVX-512), "x86_64_v3" (AVX2, FMA) or "baseline". The
 * environment variable MSDA_CPU_ISA names the most that is used, to show that the bits do not depend on it. */
MSDA_API const char* msda_cpu_isa(void);

#ifdef __cplusplus
}
#endif
