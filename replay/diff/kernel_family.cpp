#include "replay/diff/kernel_family.h"

#include <algorithm>

namespace msda::replay {
bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return text.find(word) != text.npos; });
}

bool is_of_library(std::string_view demangled) {
  return has_any(demangled,
                 {"cudnn",    "cutlass", "cublas",  "xmma",    "nvjet", "gemm",   "gemv",       "winograd",
                  "convolve", "conv2d",  "dgrad",   "wgrad",   "fft",   "splitK", "nchwToNhwc", "nhwcToNchw",
                  "volta_",   "turing_", "ampere_", "hopper_", "sm80_", "sm90_",  "sm100_",     "implicit_con"});
}

bool is_of_triton(std::string_view name) {
  return !name.empty() && !name.starts_with("_Z") && !is_of_library(name) && !has_any(name, {"nccl", "fmha"});
}

}  // namespace msda::replay
