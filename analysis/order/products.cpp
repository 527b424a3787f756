#include "analysis/order/products.h"

#include <algorithm>
#include <array>
#include <bit>

#include "analysis/numbers/tensor.h"

namespace msda::analysis {
namespace {

constexpr size_t kMostFactors = 8;

// A product of the factors in a set; its steps number their results from `factors` on.
struct Tree {
  std::string name;
  std::vector<Product::Step> steps;
};

std::string in_brackets(const std::string& name) {
  return name.find_first_of("*/") == name.npos ? name : "(" + name + ")";
}

// Returns the operand that a tree with the steps `steps` is.
uint8_t operand(uint32_t set, const std::vector<Product::Step>& steps, size_t first_result) {
  return static_cast<uint8_t>(steps.empty() ? static_cast<size_t>(std::countr_zero(set))
                                            : first_result + steps.size() - 1);
}

// Returns all trees. A divisor is the last factor, and so the right operand wherever it occurs alone.
std::vector<Tree> trees_of(uint32_t set, const std::vector<std::string>& names, bool last_divides) {
  if (std::has_single_bit(set)) return {{names[static_cast<size_t>(std::countr_zero(set))], {}}};
  const size_t factors = names.size();
  const uint32_t lowest = set & ~(set - 1);
  std::vector<Tree> trees;
  for (uint32_t left = (set - 1) & set; left != 0; left = (left - 1) & set) {
    if ((left & lowest) == 0) continue;
    const uint32_t right = set & ~left;
    const bool divides = last_divides && right == 1u << (factors - 1);
    for (const Tree& left_tree : trees_of(left, names, last_divides)) {
      for (const Tree& right_tree : trees_of(right, names, last_divides)) {
        Tree tree{in_brackets(left_tree.name) + (divides ? "/" : "*") + in_brackets(right_tree.name), left_tree.steps};
        const auto shift = [&](uint8_t at) {
          return static_cast<uint8_t>(at < factors ? at : at + left_tree.steps.size());
        };
        for (const auto& [a, b, by] : right_tree.steps) tree.steps.push_back({shift(a), shift(b), by});
        const uint8_t of_one = operand(left, left_tree.steps, factors);
        const uint8_t of_other = operand(right, right_tree.steps, factors + left_tree.steps.size());
        tree.steps.push_back({of_one, of_other, divides});
        trees.push_back(std::move(tree));
      }
    }
  }
  return trees;
}

}  // namespace

std::vector<Product> all_products(const std::vector<std::string>& factors, const std::vector<std::string>& likeliest,
                                  bool last_divides) {
  std::vector<Product> products;
  for (Tree& tree : trees_of((1u << factors.size()) - 1, factors, last_divides)) {
    products.push_back({std::move(tree.name), std::move(tree.steps)});
  }
  std::ranges::stable_sort(products, {}, [&](const Product& product) {
    return std::ranges::find(likeliest, product.name) - likeliest.begin();
  });
  return products;
}

void multiply(const Product& product, msda_dtype type, std::span<double> first, std::span<const double> others) {
  std::array<double, 2 * kMostFactors> values{};
  const size_t factors = product.steps.size() + 1;
  std::copy_n(others.begin(), factors - 1, values.begin() + 1);
  for (double& value : first) {
    values[0] = value;
    size_t result = factors;
    for (const auto& [left, right, divides] : product.steps) {
      values[result++] = rounded_to(divides ? values[left] / values[right] : values[left] * values[right], type);
    }
    value = product.steps.empty() ? value : values[result - 1];
  }
}

}  // namespace msda::analysis
