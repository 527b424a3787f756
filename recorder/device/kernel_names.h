// What names of kernels and operators show.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace msda::record {

// Returns whether the text has one of these words in it.
inline bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return text.find(word) != text.npos; });
}

// Recognizes PyTorch's and cuRAND's names, and usual names of people's own kernels. It does not look for "rand" alone,
// which "operand" has, too.
inline bool draws_random_numbers(std::string_view name) {
  return has_any(name, {"distribution", "dropout", "hilox", "curand", "bernoulli", "randperm", "randint", "randn",
                        "uniform_", "multinomial"});
}

// Recognizes kernels that wait for other processes, devices or the host, and exchange data with them.
inline bool is_collective(std::string_view name) {
  return has_any(name, {"nccl", "nvshmem", "msccl", "cross_device_reduce", "multimem"});
}

}  // namespace msda::record
