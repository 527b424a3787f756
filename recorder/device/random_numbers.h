// What names of kernels and operators tell of random numbers.
#pragma once

#include <algorithm>
#include <string_view>

namespace msda::record {

// Of PyTorch's and cuRAND's names, and of what people call their own kernels. Not "rand" alone, which "operand" has,
// too.
inline bool tells_of_random_numbers(std::string_view name) {
  constexpr std::string_view kWords[] = {"distribution", "dropout", "hilox", "curand",   "bernoulli",
                                         "randperm",     "randint", "randn", "uniform_", "multinomial"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return name.find(word) != name.npos; });
}

}  // namespace msda::record
