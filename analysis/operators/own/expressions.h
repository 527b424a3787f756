// What a definition can say that consists of expressions: a library cannot.
#pragma once

#include <boost/container/static_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/model/forward.h"

namespace msda::analysis {

// Where an element's coordinate is taken to lie: exact arithmetic's cell or one beside it, and the distance from it.
struct OwnCell {
  int32_t cell;
  double fraction;
};
using OwnCells = boost::container::static_vector<OwnCell, 3>;

// An element of an intermediate tensor, "z" at "r 3".
struct OwnStageElement {
  std::string stage, place;
  double value, computed;  // in float64; each operation rounded to the call's arithmetic
};

class OwnExpressions {
 public:
  virtual ~OwnExpressions() = default;

  // Returns an element's coordinates, and the elements of intermediate tensors that its terms read, the first of many.
  virtual std::vector<OwnStageElement> stages_read(size_t output, int64_t flat, const OwnCells& cells) const = 0;
  // Returns whether the outputs are said to be derivatives: of one sum that is linear in each input that one is a
  // gradient of, or each of what it says itself.
  virtual bool has_loss() const = 0;
  // Returns the part of that sum which depends on an element of the input that an output is the gradient of, at x.
  virtual Loss loss_at(size_t output, int64_t flat, double x) const = 0;
  // Returns which of the element's coordinates that input moves, if any.
  virtual std::optional<size_t> moved_axis(size_t output, int64_t flat) const = 0;
};

}  // namespace msda::analysis
