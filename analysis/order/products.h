// The ways to multiply a few factors: rounding makes each of them another number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/msda.h"

namespace msda::analysis {

struct Product {
  // "((grad_output*attention)*wy)*wx", "(grad_output*wx)/count": in each product the factor named first in the list
  // comes first.
  std::string name;
  // The operands of each multiplication: a factor, or, from the number of factors on, an earlier result. The last gives
  // the product. None for a single factor.
  struct Step {
    uint8_t left, right;
    bool divides = false;
  };
  std::vector<Step> steps;
};

// Returns all products of the factors, those of `likeliest` first, in its order. With `last_divides` the last factor
// divides what it is combined with.
std::vector<Product> all_products(const std::vector<std::string>& factors, const std::vector<std::string>& likeliest,
                                  bool last_divides = false);

// The products of `first` (by channel) and the other factors, each multiplication or division rounded to `type`, into
// `first`.
void multiply(const Product& product, msda_dtype type, std::span<double> first, std::span<const double> others);

}  // namespace msda::analysis
