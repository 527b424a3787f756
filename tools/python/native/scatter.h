// Which calls of index_add and scatter_add libmsda can take as they are. msda_replay/torch/operators/scatter_add.py has
// the others: those that PyTorch refuses, and those that take several steps.
#pragma once

#include <array>
#include <utility>

#include "tools/python/native/tensor.h"

namespace msda::python {

// Returns whether no two elements of a tensor share memory, because each dimension's steps are longer than all that
// shorter steps reach. For steps that interleave it returns false, too.
inline bool is_free_of_overlap(const msda_tensor& tensor) {
  std::array<std::pair<int64_t, int64_t>, MSDA_MAX_RANK> steps;  // strides, the shortest first, and how many there are
  size_t count = 0;
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] == 1) continue;
    const std::pair step(tensor.stride[i], tensor.shape[i] - 1);
    size_t at = count++;
    for (; at > 0 && step < steps[at - 1]; --at) steps[at] = steps[at - 1];
    steps[at] = step;
  }
  int64_t reach = 0;
  for (size_t i = 0; i < count; ++i) {
    if (steps[i].first <= reach) return false;
    reach += steps[i].first * steps[i].second;
  }
  return true;
}

// Returns whether all tensors are on one GPU, are of fitting types and shapes, and share no memory. by_elements: the
// index has a number for each element of the source, and not for each row.
inline bool is_plain(const Tensor& sum, int64_t dim, const Tensor& index, const Tensor& source, bool by_elements) {
  if (sum.device == kHost || index.device != sum.device || source.device != sum.device) return false;
  if (!index.is_integer() || sum.is_integer() || source.view.dtype != sum.view.dtype) return false;
  const int rank = sum.view.rank;
  if (rank == 0 || source.view.rank != rank || dim < 0 || dim >= rank) return false;
  if (index.view.rank != (by_elements ? rank : 1)) return false;
  for (int i = 0; i < rank; ++i) {
    if (i != dim && sum.view.shape[i] != source.view.shape[i]) return false;
    if (by_elements && index.view.shape[i] != source.view.shape[i]) return false;
  }
  if (!by_elements && index.view.shape[0] != source.view.shape[dim]) return false;
  if (count_of(sum.view) == 0 || count_of(source.view) == 0 || !is_free_of_overlap(sum.view)) return false;
  const Extent written(sum.view);
  return !written.overlaps(Extent(index.view)) && !written.overlaps(Extent(source.view));
}

}  // namespace msda::python
