// Division of numbers below 2^31 by a divisor that the host knows, as a multiplication. The GPU has no instruction for
// division; its twenty instructions show where threads have little else to do.
#pragma once

#include <cstdint>

#include "kernels/sample.h"

namespace msda::kernels::cuda {

struct Division {
  uint32_t by = 1, factor = uint32_t{1} << 31, shift = 31;
  Division() = default;
  explicit Division(int64_t divisor) : by(static_cast<uint32_t>(divisor)) {
    while ((int64_t{1} << (shift - 31)) < divisor) ++shift;
    factor = static_cast<uint32_t>(((uint64_t{1} << shift) + by - 1) / by);  // with an error below 2^(shift - 31) / by
  }
  struct Result {
    uint32_t quotient, rest;
  };
  MSDA_HOST_DEVICE Result divide(uint32_t n) const {
    const auto quotient = static_cast<uint32_t>(uint64_t{n} * factor >> shift);
    return {quotient, n - quotient * by};
  }
};

}  // namespace msda::kernels::cuda
