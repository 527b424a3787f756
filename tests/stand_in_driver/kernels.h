// The kernels of the stand-in driver: host functions under the names, and with the parameters, of kernels of the wild.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
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

// Takes a kernel's arguments one after the other, each aligned as its type is.
class Arguments {
 public:
  explicit Arguments(const std::byte* bytes) : bytes_(bytes) {}

  template <class T>
  T next() {
    at_ = (at_ + alignof(T) - 1) / alignof(T) * alignof(T);
    T value;
    std::memcpy(&value, bytes_ + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

 private:
  const std::byte* bytes_;
  size_t at_ = 0;
};

// What a unit of 16 bytes adds to one of a digest's two sums (recorder/device/digest.h).
uint64_t digest_term(uint64_t a, uint64_t b, uint64_t at, size_t sum);

// Kernels that are not the operator's backward: PyTorch's grid_sampler_2d and grid_sampler_3d backward, and those
// of a user's own.
const std::vector<KernelCode>& other_kernels();

// Null if there is no such kernel.
const KernelCode* find_kernel_code(std::string_view name);

}  // namespace msda::stand_in
