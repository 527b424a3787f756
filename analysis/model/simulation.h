// What an operator offers to simulations of its calls (analysis/stress/): calls of other sizes, divided into slices
// that can be drawn and compared one by one, and a screen that finds the few elements on which two arithmetics may
// differ.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/model/gradient.h"
#include "analysis/numbers/compare.h"
#include "analysis/numbers/tensor.h"
#include "kernels/msda.h"

namespace msda::analysis {

class Call;
struct Axis;

// In place of the recorded sizes.
struct CallSizes {
  std::optional<int64_t> batch, heads, queries;
};

// A call divided into parts whose elements depend on nothing of the other parts.
struct Slices {
  int64_t count = 0;
  std::shared_ptr<const Call> outline;  // of one of them, without data
};

// Elements of a call's gradients, by Gradient, that may be out of tolerance: all of a gradient, or those listed.
struct Suspects {
  std::array<bool, kMostGradients> all{};
  std::array<std::vector<int64_t>, kMostGradients> elements;

  void clear() {
    all = {};
    for (auto& list : elements) list.clear();
  }
};

// Finds the elements of a slice that two arithmetics may give values of which one is out of tolerance of the other;
// that no other element can be is proven, not estimated, from the rounding errors of the operator's kernels. Not
// thread-safe.
class Screen {
 public:
  virtual ~Screen() = default;
  virtual void find(const Call& slice, const Tolerance& tolerance, Suspects& suspects) = 0;
};

// Arithmetic that a simulation compares: how a kernel accumulates, and under which conventions.
struct Arithmetic {
  std::string name;  // a dialect, or "float64"
  msda_mode mode = MSDA_MODE_DETERMINISTIC;
  bool contracted = false;                    // coordinates with the fused multiply-adds of compilers; not of float64
  std::shared_ptr<const Call> alternative{};  // a call with these conventions, whatever its tensors; null: the recorded

  // Returns a call with these conventions.
  const Call& version_of(const Call& call) const { return alternative ? *alternative : call; }
};

// How a test in Python finds where a sample lies, from what it has.
struct PythonSamples {
  const char *parameters, *document;  // of a function that returns which samples are compared; `document` says more
  const char *size, *pixel;           // expressions: the sizes of the sample's image, x first, and its coordinates
  const char* gradients;              // names, in quotes, of the gradients of samples
};

class Simulation {
 public:
  virtual ~Simulation() = default;

  // The call with other sizes, in slices. Throws std::invalid_argument for a size that the operator lacks, or that does
  // not fit the others.
  virtual Slices slices(const CallSizes& sizes) const = 0;
  // Returns the same sizes with other inputs, in the order of inputs(). The tensors are views of memory that outlives
  // the call.
  virtual std::shared_ptr<const Call> with_values(std::span<const Tensor> inputs) const = 0;
  // Returns how many adjacent numbers of the input a softmax may have normalized together; none if it is no such input.
  virtual std::vector<int64_t> normalized_together(size_t /*input*/) const { return {}; }
  // Arithmetics that a test may compare with, by name: dialects, "float64".
  virtual std::vector<Arithmetic> arithmetics() const {
    return {{"float64", MSDA_MODE_FLOAT64}, {"deterministic", MSDA_MODE_DETERMINISTIC}};
  }
  // Gradients may jump where a pixel coordinate is a multiple of `spacing`, moved by `offset`: those of the sample that
  // lies there, or (`scattered`) those of the pixels to which it is added.
  struct Jumps {
    double spacing = 1, offset = 0;
    bool scattered = false;
  };
  virtual Jumps jumps() const { return {}; }
  // Returns nothing for an operator whose samples follow from no input, or from an expression of the user's own.
  virtual std::optional<PythonSamples> samples_in_python() const { return std::nullopt; }
  // Returns, for scattered gradients, the elements of grad_output that belong to samples with such a coordinate.
  virtual std::vector<int64_t> grad_output_at(const std::function<bool(const Axis&)>&) const { return {}; }
  // Returns an element of a gradient of samples in such arithmetic under the call's own conventions, with the bits of
  // Kernels::run_kernels() where nothing is contracted.
  virtual double value_in(const Arithmetic& arithmetic, Gradient gradient, int64_t flat) const = 0;
  // Returns whether contraction changes the gradients of samples in this arithmetic.
  virtual bool contracts(const Arithmetic&) const { return false; }
  // Null where the operator has none for these: every element must then be compared.
  virtual std::unique_ptr<Screen> screen(const Arithmetic& /*observed*/, const Arithmetic& /*expected*/) const {
    return nullptr;
  }
};

}  // namespace msda::analysis
