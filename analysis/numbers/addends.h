// The addends of one element of a gradient.
#pragma once

#include <vector>

namespace msda::analysis {

// Addends in some arithmetic, and the factor of their sum. They are the contributions of samples for a scattered
// gradient, otherwise a product for each channel.
struct Addends {
  std::vector<double> values;
  double scale = 1;

  double exact_sum() const;
  double magnitude() const;  // sum of |addends|, scaled
};

}  // namespace msda::analysis
