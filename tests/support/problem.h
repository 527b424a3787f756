// Random problems, and the calls of the library that tests make on them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/model/abi.h"
#include "analysis/model/side.h"
#include "analysis/operators/msda/call.h"
#include "kernels/msda.h"

namespace msda::tests {

struct Sizes {
  int64_t B = 1, M = 1, D = 4, Q = 5, P = 2;
  std::vector<std::array<int32_t, 2>> levels{{4, 5}};  // height, width
  int64_t S() const;
  int64_t L() const { return static_cast<int64_t>(levels.size()); }
};

// A tensor that owns its memory.
struct OwnedTensor {
  std::vector<std::byte> memory;
  analysis::Tensor view;

  OwnedTensor() = default;
  // Rounds each value into `dtype`, to nearest even.
  OwnedTensor(const std::vector<double>& values, msda_dtype dtype, const std::vector<int64_t>& shape);
  // For results: filled with a pattern that no gradient has.
  static OwnedTensor for_result(msda_dtype dtype, const std::vector<int64_t>& shape);

  OwnedTensor(const OwnedTensor& owned_tensor) { *this = owned_tensor; }
  OwnedTensor& operator=(const OwnedTensor& owned_tensor);
  OwnedTensor(OwnedTensor&& owned_tensor) noexcept = default;
  OwnedTensor& operator=(OwnedTensor&& owned_tensor) noexcept = default;

  msda_tensor abi() const { return analysis::abi_tensor(view); }
  std::span<const std::byte> bytes() const;
  std::vector<double> values() const;
  void set(int64_t flat, double value);
};

// Numbers from integer arithmetic only, so that every machine has the same inputs.
class PortableNumbers {
 public:
  void operator()(OwnedTensor& tensor, double low, double high) {
    for (int64_t i = 0; i < tensor.view.elements(); ++i) {
      state_ = state_ * 1664525u + 1013904223u;
      tensor.set(i, low + (high - low) * static_cast<double>(state_ >> 8) * 0x1p-24);
    }
  }

 private:
  uint32_t state_ = 1;
};

struct Problem {
  Sizes sizes;
  analysis::Conventions conventions;
  msda_dtype dtype = MSDA_FLOAT32;
  OwnedTensor value, spatial_shapes, sampling_locations, attention_weights, grad_output;

  analysis::MsdaCall call() const;
  std::vector<int64_t> shape_of(analysis::Gradient gradient) const;
  std::string text() const;  // for a failing test's message
};

enum class Locations {
  kInside,   // uniform in [0, 1)
  kAnywhere  // that, and: far outside, on pixel centres, on borders, tiny, NaN and infinite ones
};

// The nine combinations of dialect, padding and align_corners that there are.
std::vector<analysis::Conventions> all_conventions();

Problem make_problem(const Sizes& sizes, const analysis::Conventions& conventions, msda_dtype dtype, uint64_t seed,
                     Locations locations = Locations::kInside);
// Sizes and conventions drawn from the seed, locations anywhere; D from the numbers that implementations get wrong.
Problem random_problem(uint64_t seed, msda_dtype dtype);

// Gradients of a Problem, in the order of analysis::Gradient.
struct Gradients {
  OwnedTensor tensors[3];
  const OwnedTensor& of(analysis::Gradient gradient) const { return tensors[gradient.place()]; }
  OwnedTensor& of(analysis::Gradient gradient) { return tensors[gradient.place()]; }
  analysis::Side side(const std::string& name, std::shared_ptr<const analysis::Call> alternative = nullptr) const;
};

// msda_backward; fails the test if it does. Results in the problem's type, for MSDA_MODE_FLOAT64 in float64.
Gradients run_backward(const Problem& problem, const msda_options& options = {});
Gradients run_backward(const Problem& problem, const analysis::Conventions& conventions, const msda_options& options);
OwnedTensor run_forward(const Problem& problem, const msda_options& options = {});
std::string digest_of(const Gradients& gradients);

}  // namespace msda::tests
