// Kernels that vary, and kernels that do with memory what a survey must not repeat; and the recorder's comparison.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/stand_in_driver/kernels.h"

namespace msda::stand_in {

inline constexpr char kCounter[] = "survey_counter";  // a variable on the device: launches of survey_count

const std::vector<KernelCode>& survey_kernels();

// A reduction in sm_90's code: the lowest 12 bits of RED.ADD of integers. What adds float32 begins with
// kFloatReduction.
inline constexpr uint64_t kIntegerReduction = 0x98e;
inline constexpr uint64_t kFloatReduction[] = {0x00000003040079a6, 0x004fe2000c10f384};
// A compare-and-swap.
inline constexpr uint64_t kCompareAndSwap[] = {0x00000007020973a9, 0x000ea400001ee109};

// The kernel that this code is: one whose reductions somebody has made integers does not add float32.
const KernelCode* as_written(const KernelCode* kernel, const char* code, size_t bytes);

// Where the variable lies.
CUdeviceptr counter();

}  // namespace msda::stand_in
