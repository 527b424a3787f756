// An operator as the engine sees it: one recorded backward call, with its tensors. What compares, bounds, explains and
// groups elements asks this interface, and knows no operator by name. docs/architecture.md says how to add
// one.
//
// A call returns gradients. An element of a gradient either belongs to one sample, which landed somewhere along each of
// its axes, or adds up many samples (a scattered gradient).
#pragma once

#include <boost/container/static_vector.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/model/additions.h"
#include "analysis/model/device_call.h"
#include "analysis/model/element.h"
#include "analysis/model/gradient.h"
#include "analysis/model/landing.h"
#include "analysis/model/narrowing.h"
#include "analysis/model/simulation.h"
#include "analysis/model/smaller.h"
#include "analysis/model/wrong_values.h"
#include "analysis/numbers/addends.h"
#include "analysis/numbers/tensor.h"
#include "kernels/msda.h"

namespace msda::analysis {

// What differs between kernels of one operator, and decides where a location lands.
struct Conventions {
  msda_dialect dialect = MSDA_DEFORMABLE_DETR;
  msda_padding padding = MSDA_PADDING_ZEROS;
  bool align_corners = false;

  friend bool operator==(const Conventions&, const Conventions&) = default;
};

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
  bool output_stands_in = false;     // for the recorded stage: no recorder stores this operator's

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

// An axis along which an element's sample has a coordinate.
struct Axis {
  double location;    // as recorded
  int32_t size;       // of the level or image, in pixels; 0: it has no cells, landings differ in something else
  msda_dtype stored;  // the type of the location
  int number = 0;     // 0 is x, 1 is y, 2 is z: for operators in which the sizes do not distinguish all
};
using Axes = boost::container::static_vector<Axis, 3>;
inline char axis_name(size_t axis) { return "xyz"[axis]; }

struct NamedTensor {
  const char* name;
  Tensor tensor;
};

// A mistake that would explain a value, in words that follow "as if".
struct Mistake {
  std::string text;
  double value;  // what it would give
};

struct NamedConventions {
  std::string name;
  Conventions conventions;
};

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

// A sum in float64, and the sum of its addends' magnitudes.
struct Loss {
  long double value = 0, magnitude = 0;
};

// Arithmetic that a simulation compares: a kernel's conventions, and how it accumulates.
struct Arithmetic {
  std::string name;  // "msda_triton", "float64"
  Conventions conventions;
  msda_mode mode = MSDA_MODE_DETERMINISTIC;
  bool contracted = false;  // coordinates with the fused multiply-adds of compilers; not of float64
};

class Call;

// A call's tensors under other conventions.
struct Alternative {
  std::string text;  // what differs: "padding border in place of zeros"
  std::shared_ptr<const Call> call;
};

// What an operator has found out of its call, for elements to come. Thread-safe.
class Cache {
 public:
  virtual ~Cache() = default;
};

class Call {
 public:
  Conventions conventions;  // as recorded

  virtual ~Call() = default;

  // --- Its tensors. Inputs have been checked, and are contiguous.
  virtual std::span<const Gradient> gradients() const = 0;
  virtual Index shape_of(Gradient gradient) const = 0;
  // Floating-point ones.
  virtual std::vector<NamedTensor> inputs() const = 0;
  // Returns the type in which kernels compute for these inputs.
  virtual msda_dtype arithmetic() const;

  ElementId element_id(Gradient gradient, int64_t flat) const;

  // --- Coordinates. Returns the axes of the sample that an element belongs to; none for scattered gradients.
  virtual Axes axes(const ElementId& id) const = 0;
  virtual Coordinate coordinate(const Conventions& conventions, const Axis& axis, const Precision& precision) const = 0;
  virtual Landings landings(const Conventions& conventions, const Axis& axis, const Precision& precision) const = 0;
  // Evaluates in float32, or in float64 for float64 arithmetic. The first evaluation is that of our own kernels.
  virtual std::vector<Evaluation> evaluations(const Conventions& conventions, const Axis& axis,
                                              msda_dtype arithmetic) const = 0;
  // Returns the location rounded by a narrowing.
  Axis rounded(const Axis& axis, const Narrowing* narrowing) const;
  // Returns the exact coordinate on an image of `size` pixels.
  CoordinateMap coordinate_map(const Conventions& conventions, int32_t size) const;

  // --- Values.
  virtual std::unique_ptr<Cache> new_cache() const = 0;
  // Returns the element with the sample landed at `place`. With a narrowing it has the value that the narrowing gives,
  // and the bound on what all other rounding does to that.
  virtual Element element(const Conventions& conventions, const ElementId& id, const Place& place,
                          const Precisions& precisions, const Narrowing* narrowing, Cache& cache) const = 0;
  // Returns the addends in the call's own arithmetic, as our kernels sum them.
  virtual Addends addends(const Conventions& conventions, const ElementId& id, Cache& cache) const = 0;
  // Returns whether there are kernels that compute 16-bit tensors in their type throughout, coordinates included, or
  // add in it.
  virtual bool has_narrow_kernels() const { return false; }

  // --- Families of elements, which need the same of the cache.
  virtual int64_t family_of(Gradient gradient, int64_t flat) const = 0;
  virtual int64_t samples_of_family() const = 0;
  // Returns at most so many of its elements, spread over it. The gradients of a sample's location share most of their
  // rounded numbers, so at most one of them is taken.
  virtual std::vector<int64_t> some_of_family(Gradient gradient, int64_t family, int64_t most) const = 0;
  // Equal for elements of a scattered gradient that add up the same samples with the same weights.
  virtual int64_t weights_of(Gradient gradient, int64_t flat) const = 0;
  // Returns whether what the output buffer held before belongs to the result, and is one of the inputs.
  virtual bool adds_to_output() const { return false; }
  // Returns the additions to a scattered gradient, of which the call must outlive the result; null if the operator does
  // not say.
  virtual std::unique_ptr<Additions> additions(Gradient) const { return nullptr; }

  // --- What an element is computed from.
  using VisitInput = std::function<bool(const char* name, const Tensor& tensor, int64_t flat)>;
  // Calls visit() for the inputs that the element depends on if its sample landed at `place`, until visit() returns
  // true. Returns whether it did.
  virtual bool visit_inputs(const Conventions& conventions, const ElementId& id, const Place& place,
                            const Precision& precision, Cache& cache, const VisitInput& visit) const = 0;
  using VisitStage = std::function<bool(const char* stage, const std::vector<double>& numbers)>;
  // Does the same for the intermediate tensors on the way to the element, in the call's own arithmetic.
  virtual bool visit_stages(const Conventions& conventions, const ElementId& id, const Precision& precision,
                            Cache& cache, const VisitStage& visit) const;

  // --- Intermediate tensors, in their order; those of --float64-stages are stages(), below. What takes a mode computes
  // in the call's own arithmetic (MSDA_MODE_DETERMINISTIC) or in float64 (MSDA_MODE_FLOAT64), as our kernels do.
  virtual std::vector<Intermediate> intermediates() const = 0;
  // Samples are numbered in row-major order, batches first. An element of a sample's gradient is a number of the
  // intermediate tensor which that gradient is, at the same place.
  virtual int64_t sample_count() const = 0;
  // Returns the numbers of `count` samples from `first` on; none of a scattered gradient.
  virtual std::vector<double> numbers_of(const Intermediate& tensor, const Conventions& conventions, int64_t first,
                                         int64_t count, msda_mode mode, int threads) const = 0;
  // Returns the addends of a scattered gradient's element in the call's own arithmetic, in the order of the samples,
  // and their sum.
  virtual std::vector<NamedAddend> named_addends(const Conventions& conventions, const ElementId& id,
                                                 Cache& cache) const = 0;
  virtual double scattered_value(const Conventions& conventions, const ElementId& id, msda_mode mode,
                                 Cache& cache) const = 0;
  // Conventions whose arithmetic is worth seeing side by side, the recorded ones first. `reference`: those of the
  // reference, or null.
  virtual std::vector<NamedConventions> conventions_to_show(const Conventions* /*reference*/) const {
    return {{"deterministic", conventions}};
  }

  // Returns conventions that most tests compare with, if they are not the call's: what misses them is reported as
  // advice.
  virtual std::optional<NamedConventions> conventions_of_tests() const { return std::nullopt; }

  // --- Mistakes to try.
  // Returns the mistakes that might have given the element another value than `exact`, with its sample at `place`.
  virtual std::vector<Mistake> mistakes(const Conventions& conventions, const ElementId& id, const Place& place,
                                        const Element& exact, const Precision& precision, Cache& cache) const = 0;
  // Returns the mistake that wrong values show by their patterns, as words that follow "as if"; or an empty text.
  virtual std::string mistake_of(const WrongValues&) const { return {}; }
  // Returns the call under other conventions that its kernel may have followed.
  virtual std::vector<Alternative> alternatives() const { return {}; }
  // Returns whether an alternative is left out where another fits by part of its changes.
  virtual bool names_fewest_changes() const { return false; }
  // Returns the steps of a gradient that may be rounded to fewer bits: inputs, and what is computed of them.
  virtual Steps input_steps(Gradient gradient) const = 0;
  virtual Steps inner_steps(Gradient gradient) const = 0;
  virtual const char* name_of(Step step) const;

  // --- Groups of elements.
  virtual std::span<const Dimension> dimensions() const = 0;
  virtual Coordinates sizes() const = 0;  // by Dimension
  virtual Coordinates coordinates_of(Gradient gradient, int64_t flat) const = 0;
  // Dimensions whose indices may separate wrong values of one kind from those of another: tried in this order.
  using Part = std::vector<Dimension>;
  virtual std::span<const Part> parts() const = 0;

  // --- Replays.
  // Intermediate tensors whose precision the mode `mixed` chooses, in the order of msda_options::float64_stages.
  virtual std::span<const char* const> stages() const { return {}; }
  // Computes the gradients into `results`, by place, by the operator's own kernels on the CPU. False if it has none:
  // evaluate() then computes them by the operator's definition, which knows no mode `mixed`. Throws std::bad_alloc, or
  // std::runtime_error with libmsda's message.
  virtual bool run_kernels(const Conventions&, const msda_options&, std::span<const Tensor> /*results*/) const {
    return false;
  }
  // Returns the same for a GPU; null if the operator has no kernels for one.
  virtual std::unique_ptr<DeviceCall> device_call(const Conventions&, const msda_options&,
                                                  std::span<const Tensor> /*results*/) const {
    return nullptr;
  }

  // --- Smaller calls.
  // Every input, integers included, by its name in a capture.
  virtual std::vector<NamedTensor> all_inputs() const { return inputs(); }
  // Returns the same call on other inputs: all of them, of sizes that fit each other. The tensors must outlive it.
  virtual std::shared_ptr<const Call> with_inputs(std::span<const OwnedTensor> inputs) const = 0;
  // Returns whether a call like this one may have these inputs: some numbers choose a place, which must be there.
  virtual bool admits(std::span<const OwnedTensor> /*inputs*/) const { return true; }
  // Returns what may be left out, what is largest first.
  virtual std::vector<Cut> cuts() const = 0;
  // Returns what then stays of an input or a gradient, by its dimensions.
  virtual Kept kept_of(std::string_view tensor, const Kept& kept) const = 0;
  // Returns the index that the element has in each cut; -1 where it adds up several.
  virtual std::vector<int64_t> cut_indices(const ElementId& id) const = 0;
  virtual std::vector<Image> images() const { return {}; }
  // Returns the inputs with `count` pixels from `first` on of one side of an image. Coordinates move along, so that
  // samples land on the pixels they had, but for the rounding of the coordinates into their type.
  virtual Inputs cropped(size_t /*image*/, size_t /*side*/, int64_t /*first*/, int64_t /*count*/) const { return {}; }
  // Returns the inputs with one channel in place of all, of grad_output 1, that gives the gradients of samples the same
  // values, but for rounding. Empty where several samples have a grad_output of their own.
  virtual Inputs merged_channels() const { return {}; }

  // --- The forward pass, of which the gradients are the derivatives, if the operator says what it is.
  virtual bool has_forward() const { return true; }
  // Returns the part of sum(grad_output * output) that depends on one input element, the one whose gradient is `id`,
  // with `x` in its place. It is computed in float64, by the formula alone.
  virtual Loss loss_at(const Conventions& conventions, const ElementId& id, double x) const = 0;
  // Returns the input that a gradient is of, "grad_" less, if there is one; and which of an element's axes it moves a
  // sample along, if any.
  Tensor input_of(Gradient gradient) const;
  virtual std::optional<size_t> moved_axis(const ElementId&) const { return std::nullopt; }

  // --- Simulations.
  // The call with other sizes, in slices. Throws std::invalid_argument for a size that the operator lacks, or that does
  // not fit the others.
  virtual Slices slices(const CallSizes& sizes) const = 0;
  // Returns the same sizes with other inputs, in the order of inputs(). The tensors are views of memory that outlives
  // the call.
  virtual std::shared_ptr<const Call> with_values(std::span<const Tensor> inputs) const = 0;
  // Returns how many adjacent numbers of the input a softmax may have normalized together; none if it is no such input.
  virtual std::vector<int64_t> normalized_together(size_t /*input*/) const { return {}; }
  // Arithmetics that a test may compare with, by name: "grid_sample", "float64".
  virtual std::vector<Arithmetic> arithmetics() const {
    return {{"float64", conventions, MSDA_MODE_FLOAT64}, {"deterministic", conventions, MSDA_MODE_DETERMINISTIC}};
  }
  // Gradients may jump where a pixel coordinate is a multiple of `spacing`, moved by `offset`: those of the sample that
  // lies there, or (`scattered`) those of the pixels to which it is added.
  struct Jumps {
    double spacing = 1, offset = 0;
    bool scattered = false;
  };
  virtual Jumps jumps() const { return {}; }
  // Returns, for scattered gradients, the elements of grad_output that belong to samples with such a coordinate.
  virtual std::vector<int64_t> grad_output_at(const std::function<bool(const Axis&)>&) const { return {}; }
  // Returns an element of a gradient of samples in such arithmetic, with the bits of run_kernels() where nothing is
  // contracted.
  virtual double value_in(const Arithmetic& arithmetic, Gradient gradient, int64_t flat) const;
  // Returns what rounding decides where gradients jump, and what to do so that it does not; null: as where coordinates
  // have cells.
  virtual const char* jump_text() const { return "a rounded coordinate landed in the neighbouring cell"; }
  virtual const char* jump_help() const { return nullptr; }
  // Returns whether contraction changes the gradients of samples in this arithmetic.
  virtual bool contracts(const Arithmetic&) const { return false; }
  // Null where the operator has none for these: every element must then be compared.
  virtual std::unique_ptr<Screen> screen(const Arithmetic& /*observed*/, const Arithmetic& /*expected*/) const {
    return nullptr;
  }

  // --- Words.
  // What the kernels' arithmetic is called beside another one.
  virtual std::string arithmetic_name(const Conventions& side_conventions) const {
    return msda_dialect_name(side_conventions.dialect);
  }
  virtual std::string text_of_sizes() const = 0;  // "batch 1, queries 1000, ..."
  // "query 3", "level 1 (32 x 32)", "x".
  virtual std::string text_of(Dimension dimension, int64_t index) const;
  // Returns where an element lies, from what is largest to what is smallest.
  virtual std::vector<std::string> text_of_place(Gradient gradient, int64_t flat) const = 0;

  // Returns the same without data, for the words.
  virtual std::shared_ptr<const Call> outline() const = 0;
};

}  // namespace msda::analysis
