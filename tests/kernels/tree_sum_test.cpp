// The tree of runs, fed one addend at a time, against its definition in docs/determinism.md.
#include "kernels/tree_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace msda::tests {
namespace {

template <class Real>
Real by_definition(std::vector<Real> numbers) {
  while (numbers.size() > 1) {
    std::vector<Real> sums;
    for (size_t first = 0; first < numbers.size(); first += 32) {
      Real sum = numbers[first];
      for (size_t i = first + 1; i < std::min(first + 32, numbers.size()); ++i) sum += numbers[i];
      sums.push_back(sum);
    }
    numbers = std::move(sums);
  }
  return numbers[0];
}

template <class Real>
void compare_up_to(size_t most, const std::vector<size_t>& more) {
  std::mt19937_64 random(5);
  std::normal_distribution<Real> normal;
  std::vector<Real> numbers(*std::max_element(more.begin(), more.end()));
  for (Real& x : numbers) x = normal(random);
  kernels::TreeSum<Real> tree;
  for (size_t n = 1; n <= numbers.size(); ++n) {
    tree.add(numbers[n - 1]);
    if (n > most && std::find(more.begin(), more.end(), n) == more.end()) continue;
    ASSERT_EQ(tree.sum(), by_definition(std::vector<Real>(numbers.begin(), numbers.begin() + n))) << n;
  }
}

TEST(TreeSum, AsDefined) {
  const std::vector<size_t> more{32767, 32768, 32769, 33824, 40000, 65535, 65536, 65537, 1048576, 1048577, 1081345};
  compare_up_to<float>(3200, more);
  compare_up_to<double>(100, more);
}

}  // namespace
}  // namespace msda::tests
