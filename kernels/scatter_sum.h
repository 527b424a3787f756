// What the CPU's and the GPU's scatter_add share: which row of the sum a row of the source belongs to, and what becomes
// of the sum of its addends.
#pragma once

#include "kernels/scatter_add.h"
#include "kernels/strided.h"

namespace msda::kernels {

// Sizes and conventions of a call whose tensors have been checked against one another. The source is `outer` times `n`
// rows of D numbers, the sum `outer` times `rows`. Where each element has an index of its own, each is a row.
struct ScatterSizes {
  int64_t outer, n, rows, D;
  msda_scatter_scale scale;
  bool include_self;
  int64_t padding;
  bool by_elements;
  int64_t along, inner;  // by elements: numbers of the source along `dim`, and after it
  int64_t named;         // by elements: rows that an index can name
};

inline namespace MSDA_ISA {

// Returns `named`, a number of the index, or -1 if it is left out, -2 if there is no such row.
MSDA_HOST_DEVICE inline int64_t checked_row(const ScatterSizes& s, int64_t named) {
  if (named == s.padding && named != -1) return -1;
  return named < 0 || named >= s.named ? -2 : named;
}

// Returns the row of the sum to which row j of the source belongs, -1 if it is left out, -2 if there is no such row.
// `index` has one dimension, or by elements as many as the source.
MSDA_HOST_DEVICE inline int64_t row_of(const ScatterSizes& s, const msda_tensor& index, int64_t j) {
  const int64_t row = checked_row(s, integer_at(index, s.by_elements ? offset_of(index, j) : j * index.stride[0]));
  return s.by_elements && row >= 0 ? (j / s.inner / s.along * s.named + row) * s.inner + j % s.inner : row;
}

// Returns the factor of an addend in a list of `count`, if the scale is by frequency.
template <class Real>
MSDA_HOST_DEVICE inline Real share_of(int64_t count) {
  return Real(1) / static_cast<Real>(count);
}

// Returns an element of the sum, from what it held, or +0, and the sum of its `count` addends.
template <class Real>
MSDA_HOST_DEVICE inline Real finished(const ScatterSizes& s, Real held, Real total, int64_t count) {
  const Real sum = held + total;
  const int64_t numbers = count + (s.include_self ? 1 : 0);
  return s.scale == MSDA_SCATTER_MEAN && numbers > 1 ? sum / static_cast<Real>(numbers) : sum;
}

}  // namespace MSDA_ISA
}  // namespace msda::kernels
