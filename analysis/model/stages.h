// Optional: the intermediate tensors of the backward pass, in their order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/model/gradient.h"
#include "kernels/msda.h"

namespace msda::analysis {

class Cache;

// An intermediate tensor of the backward pass, the gradients at its end included. A sample has `channels` numbers for
// each component, those of a component in a row; a scattered gradient has no numbers of samples.
struct Intermediate {
  int stage;                            // the operator's own number of it
  const char* name;                     // "pixel_coordinates", as kernels/names.h has it
  std::vector<std::string> components;  // "x"; "y0,x1"; a single one has no name
  std::optional<int64_t> channels;      // without: a component is one number
  // With whose elements it is shown: of the gradient of a sample it lies on the way, of a scattered one it has the
  // addends.
  std::vector<Gradient> shown_for;
  std::optional<Gradient> gradient;  // the one that it is
  bool is_exact = false;             // a number that rounding changed at all has drifted: cells

  bool is_scattered() const { return gradient && gradient->scattered(); }
  int64_t width() const {  // numbers of a sample
    return is_scattered() ? 0 : static_cast<int64_t>(components.size()) * channels.value_or(1);
  }
};

// An addend of an element of a scattered gradient.
struct NamedAddend {
  std::string text;        // "query 3, point 1, corner y0,x1"
  int64_t sample, number;  // its place in the intermediate tensor of the addends: among the numbers of that sample
};

// What takes a mode computes in the call's own arithmetic (MSDA_MODE_DETERMINISTIC) or in float64 (MSDA_MODE_FLOAT64),
// as our kernels do.
class Stages {
 public:
  virtual ~Stages() = default;

  virtual std::vector<Intermediate> intermediates() const = 0;
  // Samples are numbered in row-major order, batches first. An element of a sample's gradient is a number of the
  // intermediate tensor which that gradient is, at the same place.
  virtual int64_t sample_count() const = 0;
  // Returns the numbers of `count` samples from `first` on; none of a scattered gradient.
  virtual std::vector<double> numbers_of(const Intermediate& tensor, int64_t first, int64_t count, msda_mode mode,
                                         int threads) const = 0;
  // Returns the addends of a scattered gradient's element in the call's own arithmetic, in the order of the samples,
  // and their sum.
  virtual std::vector<NamedAddend> named_addends(const ElementId& id, Cache& cache) const = 0;
  virtual double scattered_value(const ElementId& id, msda_mode mode, Cache& cache) const = 0;
};

}  // namespace msda::analysis
