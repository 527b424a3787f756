// What a tensor is: its name, the type of its elements, and how they lie.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/names.h"

namespace msda::tensors {

struct Description {
  std::string name;  // "grad_value"
  msda_dtype type = MSDA_FLOAT32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides = {};  // in elements; empty: row-major
};

}  // namespace msda::tensors
