#include "replay/diff/kernel_family.h"

#include "recorder/device/kernel_names.h"

namespace msda::replay {

bool is_of_library(std::string_view demangled) {
  return record::has_any(
      demangled, {"cudnn",    "cutlass", "cublas",  "xmma",    "nvjet", "gemm",   "gemv",       "winograd",
                  "convolve", "conv2d",  "dgrad",   "wgrad",   "fft",   "splitK", "nchwToNhwc", "nhwcToNchw",
                  "volta_",   "turing_", "ampere_", "hopper_", "sm80_", "sm90_",  "sm100_",     "implicit_con"});
}

bool is_of_triton(std::string_view name) {
  return !name.empty() && !name.starts_with("_Z") && !is_of_library(name) && !record::has_any(name, {"nccl", "fmha"});
}

}  // namespace msda::replay
