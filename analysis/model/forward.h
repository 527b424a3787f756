// Optional: the forward pass, of which the gradients are the derivatives.
#pragma once

#include <cstddef>
#include <optional>

#include "analysis/model/gradient.h"

namespace msda::analysis {

// A sum in float64, and the sum of its addends' magnitudes.
struct Loss {
  long double value = 0, magnitude = 0;
};

class Forward {
 public:
  virtual ~Forward() = default;

  // False: this call's definition does not say it, though others of the class do.
  virtual bool has_forward() const { return true; }

  // Returns the part of sum(grad_output * output) that depends on one input element, the one whose gradient is `id`,
  // with `x` in its place. It is computed in float64, by the formula alone.
  virtual Loss loss_at(const ElementId& id, double x) const = 0;
  // Returns which of the element's axes its input moves a sample along, if any.
  virtual std::optional<size_t> moved_axis(const ElementId&) const { return std::nullopt; }
};

}  // namespace msda::analysis
