// Operators that scatter to images: the one gradient is that of an input [N,C,(D,)(H,)W].
#pragma once

#include <string>
#include <vector>

#include "analysis/operators/scatter/call.h"

namespace msda::analysis {

class ImageScatterCall : public ScatterCall {
 public:
  int64_t N = 0, C = 0;

  std::span<const Gradient> gradients() const override;

  std::span<const Dimension> dimensions() const override;
  Coordinates sizes() const override { return {N, C, to_.minor}; }
  Coordinates coordinates_of(Gradient gradient, int64_t flat) const override;
  std::span<const Part> parts() const override;
  std::vector<std::string> text_of_place(Gradient gradient, int64_t flat) const override;
};

}  // namespace msda::analysis
