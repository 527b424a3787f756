// What names of kernels and operators show of random numbers.
#pragma once

#include <algorithm>
#include <string_view>

namespace msda::record {

// Recognizes PyTorch's and cuRAND's names, and usual names of people's own kernels. It does not look for "rand" alone,
// which "operand" has, too.
inline bool tells_of_random_numbers(std::string_view name) {
  constexpr std::string_view kWords[] = {"distribution", "dropout", "hilox", "curand",   "bernoulli",
                                         "randperm",     "randint", "randn", "uniform_", "multinomial"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return name.find(word) != name.npos; });
}

}  // namespace msda::record
