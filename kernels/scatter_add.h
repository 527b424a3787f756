/* Sums of the rows of a tensor that share an index, in libmsda: PyTorch's index_add, scatter_add, scatter_reduce (sum
 * and mean, with include_self), index_put with accumulate, and the backward passes of embedding, index_select and
 * gather. Arithmetic, errors and options are those of msda.h; the modes are deterministic and float64.
 *
 *     sum[.., r, ..] = what it held, or +0, + the sum over rows j with index[j] = r of  source[.., j, ..]
 *
 * Shapes. `source` has 1 to 7 dimensions, any of which may be zero; `dim` is one of them. `sum` has the same, but for
 * the size of `dim`. `index`, int32 or int64, has one number for each row of `source` along `dim`, or the shape of
 * `source` and a number for each element.
 *
 * The arithmetic is float64 if `source` is float64, or `sum` is and is included. docs/determinism.md gives every
 * operation and its order: the addends of an element come in the order of the source's rows.
 */
#pragma once

#include "kernels/msda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum msda_scatter_scale MSDA_ENUM_TYPE {
  MSDA_SCATTER_SUM = 0,
  MSDA_SCATTER_MEAN = 1,        /* the sum, divided by how many numbers it is of, what it held among them */
  MSDA_SCATTER_BY_FREQUENCY = 2 /* each addend is multiplied by one over how many rows have its index */
} msda_scatter_scale;

typedef struct msda_scatter_add_call {
  msda_scatter_scale scale;
  int32_t dim;          /* from 0 */
  int32_t include_self; /* 1: each sum begins with what it held, and rows that no index names are left as they are.
                           0: each begins with +0, and such rows become +0, which scatter_reduce leaves as they are */
  int64_t padding;      /* rows of this index are left out; -1: none */
  msda_tensor index;
  msda_tensor source;
} msda_scatter_add_call;

/* `options` may be null. An index outside `sum` is an error. `sum` may not overlap the inputs, nor
 * may its elements share memory. */
MSDA_API msda_status msda_scatter_add(const msda_scatter_add_call* call, const msda_options* options,
                                      const msda_tensor* sum);

/* The same on the current GPU, with the same bits; all tensors are in memory of that GPU. The work is enqueued on
 * `stream`, a cudaStream_t (null: the default stream), and the function does not wait for it: rows whose index lies
 * outside `sum` are left out. `threads` is ignored. */
MSDA_API msda_status msda_cuda_scatter_add(const msda_scatter_add_call* call, const msda_options* options,
                                           const msda_tensor* sum, void* stream);

#ifdef __cplusplus
}
#endif
