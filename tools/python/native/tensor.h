// A tensor of Python, as an msda_tensor and where it is; and its memory.
#pragma once

#include "kernels/msda.h"
#include "kernels/names.h"
#include "kernels/walk.h"
#include "tools/python/native/python.h"

namespace msda::python {

// Where a tensor is.
inline constexpr int kHost = -1;

struct Tensor {
  msda_tensor view{};
  int device = kHost;  // or the number of its GPU
  bool is_integer() const { return kernels::is_index(view.dtype); }
};

inline int64_t count_of(const msda_tensor& tensor) { return kernels::elements_of(kernels::sizes_of(tensor)); }

// The bytes that a tensor's elements lie in.
struct Extent {
  uintptr_t begin, end;
  Extent(const void* data, int64_t bytes)
      : begin(reinterpret_cast<uintptr_t>(data)), end(begin + static_cast<uintptr_t>(bytes)) {}
  explicit Extent(const msda_tensor& tensor)
      : Extent(tensor.data, (last_of(tensor) + 1) * kernels::bytes_of(tensor.dtype)) {}
  bool overlaps(const Extent& extent) const { return begin < extent.end && extent.begin < end; }

 private:
  static int64_t last_of(const msda_tensor& tensor) {
    int64_t last = 0;
    for (int i = 0; i < tensor.rank; ++i) last += (tensor.shape[i] - 1) * tensor.stride[i];
    return last;
  }
};

}  // namespace msda::python
