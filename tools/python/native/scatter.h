// Which calls of index_add and scatter_add libmsda can take as they are. msda_replay/torch/scatter.py has the others:
// those that PyTorch refuses, and those that take several steps.
#pragma once

#include "tools/python/native/tensors.h"

namespace msda::python {

// The bytes that a tensor's elements lie in.
struct Extent {
  uintptr_t begin, end;
  explicit Extent(const msda_tensor& tensor, int64_t element_bytes) {
    int64_t last = 0;
    for (int i = 0; i < tensor.rank; ++i) last += (tensor.shape[i] - 1) * tensor.stride[i];
    begin = reinterpret_cast<uintptr_t>(tensor.data);
    end = begin + static_cast<uintptr_t>((last + 1) * element_bytes);
  }
  bool overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};

inline int64_t bytes_of(const msda_tensor& tensor) {
  switch (tensor.dtype) {
    case MSDA_FLOAT16:
    case MSDA_BFLOAT16:
      return 2;
    case MSDA_FLOAT32:
    case MSDA_INT32:
      return 4;
    default:
      return 8;
  }
}

inline bool has_elements(const msda_tensor& tensor) {
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] == 0) return false;
  }
  return true;
}

// Whether two elements of a tensor may be one in memory, as PyTorch asks before it writes.
inline bool repeats(const msda_tensor& tensor) {
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] != 1 && tensor.stride[i] == 0) return true;
  }
  return false;
}

// A call whose tensors are on one GPU, are of fitting types and shapes, and share no memory. by_elements: the index has
// a number for each element of the source, and not for each row.
inline bool is_plain(const Tensor& sum, int64_t dim, const Tensor& index, const Tensor& source, bool by_elements) {
  if (sum.device == kHost || index.device != sum.device || source.device != sum.device) return false;
  if (!index.is_integer() || sum.is_integer() || source.of.dtype != sum.of.dtype) return false;
  const int rank = sum.of.rank;
  if (rank == 0 || source.of.rank != rank || dim < 0 || dim >= rank) return false;
  if (index.of.rank != (by_elements ? rank : 1)) return false;
  for (int i = 0; i < rank; ++i) {
    if (i != dim && sum.of.shape[i] != source.of.shape[i]) return false;
    if (by_elements && index.of.shape[i] != source.of.shape[i]) return false;
  }
  if (!by_elements && index.of.shape[0] != source.of.shape[dim]) return false;
  if (!has_elements(sum.of) || !has_elements(source.of) || repeats(sum.of)) return false;
  const Extent written(sum.of, bytes_of(sum.of));
  return !written.overlaps(Extent(index.of, bytes_of(index.of))) &&
         !written.overlaps(Extent(source.of, bytes_of(source.of)));
}

}  // namespace msda::python
