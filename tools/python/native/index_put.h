// Which calls of index_put_ libmsda can take as they are: rows of a tensor, written where one index says. All others,
// such as one number for all rows, which comes from the host, are PyTorch's.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>

#include "kernels/index_put.h"
#include "kernels/strided.h"
#include "tools/python/native/torch.h"

namespace msda::python {

struct IndexPut {
  msda_index_put_call call{};
  int device = kHost;
};

// Returns whether the GPU's kernels can count so many rows and numbers of an index, with little memory beside the
// index.
inline bool are_countable(int64_t rows, int64_t numbers) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max(), kFew = int64_t{1} << 20, kEach = 16;
  return rows <= kMost && numbers <= kMost && rows <= std::max(kFew, kEach * numbers);
}

// Returns the one index among `indices`, or null.
inline PyObject* only_index(PyObject* indices) {
  if (PyList_Check(indices)) return PyList_Size(indices) == 1 ? PyList_GetItem(indices, 0) : nullptr;
  return PyTuple_Check(indices) && PyTuple_Size(indices) == 1 ? PyTuple_GetItem(indices, 0) : nullptr;
}

// Requires all of them on one GPU, of one type and of fitting shapes; none shares memory with what is written.
inline std::optional<IndexPut> plain_index_put(const Exchange& exchange, PyObject* self, PyObject* indices,
                                               PyObject* values) {
  PyObject* const number = only_index(indices);
  if (number == nullptr || !exchange.knows(self) || !exchange.knows(number) || !exchange.knows(values)) return {};
  Tensor to, index, from;
  ElementType type{}, of_index{}, of_values{};
  if (!exchange.read(self, to, type) || !exchange.read(number, index, of_index) ||
      !exchange.read(values, from, of_values) || !of_index.read(index.view.dtype)) {
    return {};
  }
  if (to.device == kHost || index.device != to.device || from.device != to.device) return {};
  if (type.bytes() == 0 || !(of_values == type) || !index.is_integer() || index.view.rank != 1) return {};
  if (to.view.rank == 0 || count_of(to.view) == 0 || index.view.shape[0] == 0) return {};
  if (!kernels::is_contiguous(to.view) || !kernels::is_contiguous(from.view)) return {};
  const bool fits = from.view.rank == to.view.rank && from.view.shape[0] == index.view.shape[0] &&
                    std::equal(from.view.shape + 1, from.view.shape + from.view.rank, to.view.shape + 1);
  if (!fits || !are_countable(to.view.shape[0], index.view.shape[0])) return {};
  const auto bytes_in = [&](const msda_tensor& tensor) { return count_of(tensor) * type.bytes(); };
  const Extent written(to.view.data, bytes_in(to.view));
  if (written.overlaps(Extent(index.view)) || written.overlaps(Extent(from.view.data, bytes_in(from.view)))) return {};
  IndexPut put{};
  put.device = to.device;
  put.call.rows = to.view.data;
  put.call.count = to.view.shape[0];
  put.call.row_bytes = bytes_in(to.view) / to.view.shape[0];
  put.call.values = from.view.data;
  put.call.index = index.view;
  return put;
}

}  // namespace msda::python
