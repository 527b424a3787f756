// A result as the CUDA kernels write it.
#pragma once

#include <cstdint>

#include "kernels/names.h"

namespace msda::kernels::cuda {

// A contiguous result in device memory, or nothing.
struct Result {
  void* data;
  msda_dtype dtype;
  // Returns the result without its first `count` elements.
  Result from(int64_t count) const {
    return {data == nullptr ? nullptr : static_cast<char*>(data) + count * bytes_of(dtype), dtype};
  }
};

}  // namespace msda::kernels::cuda
