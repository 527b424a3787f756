/* Rows written where an index says, in libmsda: PyTorch's index_put without accumulate, of one index. Errors are those
 * of msda.h.
 *
 *     rows[index[j]] = values[j]   for j = 0, 1, ..
 *
 * or the same for each of several planes: parts of `rows`, of `index` and of `values`, one after the other.
 *
 * If several rows have the same index, the last one stays.
 */
#pragma once

#include "kernels/msda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msda_index_put_call {
  void* rows; /* `count` rows of `row_bytes` bytes, one after the other */
  int64_t count;
  int64_t row_bytes;
  const void* values; /* a row for each number of the index, one after the other */
  msda_tensor index;  /* int32 or int64, of one dimension; negative numbers count from the end of their plane */
  int64_t planes;     /* divides `count` and the numbers of the index; 0: one */
} msda_index_put_call;

/* On the current GPU, in whose memory everything is; `values` and `index` may not overlap `rows`. The work is enqueued
 * on `stream`, a cudaStream_t (null: the default stream), and the function does not wait for it: numbers that name no
 * row are left out. An index of many numbers needs memory beside: four bytes for each of `rows`. */
MSDA_API msda_status msda_cuda_index_put(const msda_index_put_call* call, void* stream);

#ifdef __cplusplus
}
#endif
