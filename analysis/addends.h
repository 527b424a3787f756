// The addends of one element of a gradient.
#pragma once

#include <vector>

namespace msda::analysis {

// In some arithmetic, and the factor of their sum. Of a scattered gradient they are the contributions of its samples,
// otherwise a product for each channel.
struct Addends {
  std::vector<double> values;
  double scale = 1;

  double exact_sum() const;
  double magnitude() const;  // sum of |addends|, scaled
};

}  // namespace msda::analysis
