// An operator as the engine sees it: one recorded backward call, with its tensors. What compares, bounds, explains and
// groups elements asks this interface, and knows no operator by name. docs/operators.md says how to add one.
//
// A call returns gradients. An element of a gradient either belongs to one sample, which landed somewhere along each of
// its axes, or adds up many samples (a scattered gradient).
//
// Every operator has the interfaces that Call derives from. Others are optional: a class that has one derives from it,
// too, and Call's function of that name returns null for all others.
#pragma once

#include <boost/container/static_vector.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analysis/model/additions.h"
#include "analysis/model/dependencies.h"
#include "analysis/model/element.h"
#include "analysis/model/gradient.h"
#include "analysis/model/landing.h"
#include "analysis/model/simulation.h"
#include "analysis/model/smaller.h"
#include "analysis/model/words.h"
#include "analysis/numbers/addends.h"
#include "analysis/numbers/tensor.h"
#include "kernels/msda.h"

namespace msda::analysis {

// An axis along which an element's sample has a coordinate.
struct Axis {
  double location;    // as recorded
  int32_t size;       // of the level or image, in pixels; 0: it has no cells, landings differ in something else
  msda_dtype stored;  // the type of the location
  int number = 0;     // 0 is x, 1 is y, 2 is z: for operators in which the sizes do not distinguish all
  int64_t flat = 0;   // the element that it is an axis of: for operators whose coordinates depend on it
};
using Axes = boost::container::static_vector<Axis, 3>;
inline char axis_name(size_t axis) { return "xyz"[axis]; }

// The precision that coordinates are computed in, and that of everything else.
struct Precisions {
  Precision coordinates, rest;
};

// A pixel coordinate as a function of a location along an axis, before padding: affine in every operator.
struct CoordinateMap {
  double factor, offset;

  double pixel(double location) const { return factor * location + offset; }
  double location(double pixel) const { return (pixel - offset) / factor; }
};

// What an operator has found out of its call, for elements to come. Thread-safe. It serves the call that made it, and
// that call's tensors under other conventions.
class Cache {
 public:
  virtual ~Cache() = default;
};

class Dialects;
class Forward;
class Hypotheses;
class Kernels;
class Stages;

class Call : public Dependencies, public Shrinkable, public Simulation, public Words {
 public:
  // --- Its tensors. Inputs have been checked, and are contiguous.
  virtual std::span<const Gradient> gradients() const = 0;
  virtual Index shape_of(Gradient gradient) const = 0;
  // Floating-point ones.
  virtual std::vector<NamedTensor> inputs() const = 0;
  // Returns the type in which kernels compute for these inputs.
  virtual msda_dtype arithmetic() const;
  // Returns whether what the output buffer held before belongs to the result, and is one of the inputs.
  virtual bool adds_to_output() const { return false; }

  // --- Coordinates. Returns the axes of the sample that an element belongs to; none for scattered gradients.
  virtual Axes axes(const ElementId&) const { return {}; }
  virtual Coordinate coordinate(const Axis& axis, const Precision&) const { return {axis.location, 0}; }
  virtual Landings landings(const Axis&, const Precision&) const { return {}; }
  // Evaluates in float32, or in float64 for float64 arithmetic. The first evaluation is that of our own kernels.
  virtual std::vector<Evaluation> evaluations(const Axis&, msda_dtype) const { return {}; }

  // --- Values.
  virtual std::unique_ptr<Cache> new_cache() const { return std::make_unique<Cache>(); }
  // Returns the element with the sample landed at `place`. With a narrowing it has the value that the narrowing gives,
  // and the bound on what all other rounding does to that.
  virtual Element element(const ElementId& id, const Place& place, const Precisions& precisions,
                          const Narrowing* narrowing, Cache& cache) const = 0;
  // Returns the addends in the call's own arithmetic, as our kernels sum them.
  virtual Addends addends(const ElementId& id, Cache& cache) const = 0;
  // Returns the additions to a scattered gradient, of which the call must outlive the result; null if the operator does
  // not say.
  virtual std::shared_ptr<const Additions> additions(Gradient) const { return nullptr; }

  // --- What the operator may lack.
  const Dialects* dialects() const;
  const Forward* forward() const;
  const Hypotheses* hypotheses() const;
  const Kernels* kernels() const;
  const Stages* stages() const;

  // --- What follows from it.
  ElementId element_id(Gradient gradient, int64_t flat) const;
  // Returns the location rounded by a narrowing.
  Axis rounded(const Axis& axis, const Narrowing* narrowing) const;
  // Returns the exact coordinate along an axis, and on any axis of `size` pixels if it depends on nothing else.
  CoordinateMap coordinate_map(const Axis& axis) const;
  CoordinateMap coordinate_map(int32_t size) const { return coordinate_map(Axis{0, size, MSDA_FLOAT64}); }
  // Returns the input that a gradient is of, "grad_" less, if there is one.
  Tensor input_of(Gradient gradient) const;
  // Returns what the kernels' arithmetic is called beside another one: the dialect, or the operator's name.
  std::string arithmetic_name() const;
  // Returns the same without data, for the words.
  std::shared_ptr<const Call> outline() const;
  // Returns the same call on other inputs, found by their names.
  std::shared_ptr<const Call> with_inputs(std::span<const OwnedTensor> inputs) const;
  std::shared_ptr<const Call> with_values(std::span<const Tensor> inputs) const override;
  Slices slices(const CallSizes& sizes) const override;
  Kept kept_of(std::string_view tensor, const Kept& kept) const override;
  std::vector<int64_t> cut_indices(const ElementId& id) const override;
  bool visit_stages(const ElementId& id, const Precision& precision, Cache& cache,
                    const VisitStage& visit) const override;
  std::vector<NamedTensor> all_inputs() const override { return inputs(); }
  std::vector<int64_t> some_of_family(Gradient gradient, int64_t family, int64_t most) const override;
  double value_in(const Arithmetic& arithmetic, Gradient gradient, int64_t flat) const override;
};

}  // namespace msda::analysis
