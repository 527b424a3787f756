// What names of kernels and operators show.
#pragma once

#include <algorithm>
#include <string_view>

namespace msda::record {

// Recognizes PyTorch's and cuRAND's names, and usual names of people's own kernels. It does not look for "rand" alone,
// which "operand" has, too.
inline bool draws_random_numbers(std::string_view name) {
  constexpr std::string_view kWords[] = {"distribution", "dropout", "hilox", "curand",   "bernoulli",
                                         "randperm",     "randint", "randn", "uniform_", "multinomial"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return name.find(word) != name.npos; });
}

// Recognizes kernels that wait for other processes, devices or the host, and exchange data with them.
inline bool is_collective(std::string_view name) {
  constexpr std::string_view kWords[] = {"nccl", "nvshmem", "msccl", "cross_device_reduce", "multimem"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return name.find(word) != name.npos; });
}

}  // namespace msda::record
