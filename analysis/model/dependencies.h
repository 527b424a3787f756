// What an element is computed from, and which elements share numbers and rounding errors.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/model/gradient.h"
#include "analysis/model/landing.h"
#include "analysis/model/narrowing.h"
#include "analysis/numbers/rounding.h"
#include "analysis/numbers/tensor.h"

namespace msda::analysis {

class Cache;

class Dependencies {
 public:
  virtual ~Dependencies() = default;

  using VisitInput = std::function<bool(const char* name, const Tensor& tensor, int64_t flat)>;
  // Calls visit() for the inputs that the element depends on if its sample landed at `place`, until visit() returns
  // true. Returns whether it did.
  virtual bool visit_inputs(const ElementId& id, const Place& place, const Precision& precision, Cache& cache,
                            const VisitInput& visit) const = 0;
  using VisitStage = std::function<bool(const char* stage, const std::vector<double>& numbers)>;
  // Does the same for the intermediate tensors on the way to the element, in the call's own arithmetic.
  virtual bool visit_stages(const ElementId& id, const Precision& precision, Cache& cache,
                            const VisitStage& visit) const = 0;

  // Elements of a family need the same of the cache.
  virtual int64_t family_of(Gradient, int64_t /*flat*/) const { return 0; }
  virtual int64_t samples_of_family() const { return 0; }
  // Returns at most so many of its elements, spread over it. The gradients of a sample's location share most of their
  // rounded numbers, so at most one of them is taken.
  virtual std::vector<int64_t> some_of_family(Gradient gradient, int64_t family, int64_t most) const = 0;
  // Equal for elements of a scattered gradient that add up the same samples with the same weights.
  virtual int64_t weights_of(Gradient gradient, int64_t flat) const = 0;

  // Returns whether there are kernels that compute 16-bit tensors in their type throughout, coordinates included, or
  // add in it.
  virtual bool has_narrow_kernels() const { return false; }
  // Returns the steps of a gradient that may be rounded to fewer bits: inputs, and what is computed of them.
  virtual Steps input_steps(Gradient gradient) const = 0;
  virtual Steps inner_steps(Gradient gradient) const = 0;
  virtual const char* name_of(Step step) const;
};

}  // namespace msda::analysis
