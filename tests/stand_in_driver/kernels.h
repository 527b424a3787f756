// The kernels of the stand-in driver: host functions under the names, and with the parameters, of kernels of the wild.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tests/stand_in_driver/driver_api.h"

namespace msda::stand_in {

struct Parameter {
  size_t offset, bytes;
};

struct KernelCode {
  std::string name;
  std::vector<Parameter> parameters;
  CUresult (*run)(const std::byte* arguments);  // at the offsets of `parameters`

  size_t argument_bytes() const { return parameters.back().offset + parameters.back().bytes; }
};

// Null if there is no such kernel.
const KernelCode* find_kernel_code(std::string_view name);

}  // namespace msda::stand_in
