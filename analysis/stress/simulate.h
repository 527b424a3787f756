// One simulated run of a test: a call with inputs drawn anew, in two arithmetics, compared as the test does.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "analysis/causes/cause.h"
#include "analysis/model/call.h"
#include "analysis/model/side.h"
#include "analysis/stress/generator.h"

namespace msda::analysis::stress {

// When a test passes: all elements within a tolerance, as torch.testing.assert_close has it, or (anchored) the largest
// error of each gradient at most `factor` times that of the reference, both against float64.
struct Criterion {
  Tolerance tolerance;
  std::optional<double> factor;
};

// What a test leaves out of samples with a coordinate within this many units, each 2^-23 of the level's or image's
// side, of where gradients jump: their gradients, or, if scattered gradients jump, their grad_output. 0: nothing.
struct Mask {
  double units = 0;
  bool hides(const Call& call, const ElementId& id) const;
  std::vector<int64_t> silenced(const Call& call) const;  // elements of grad_output

 private:
  bool covers(const Call& call, const Axis& axis) const;
};

struct Plan {
  Slices slices;
  std::vector<Generator> inputs;  // in the order of Call::inputs()
  Arithmetic observed, expected;
  Criterion criterion;
  Mask mask;
  uint64_t seed = 0;
  bool every_element = false;  // without the operator's screen
  // Elements are also looked at that miss this tolerance, where it is tighter: for the curve.
  Tolerance look{INFINITY, INFINITY};
};

// The gradients of a call in one arithmetic, which own their memory.
struct Gradients {
  std::array<std::vector<std::byte>, kMostGradients> memory;
  std::array<Tensor, kMostGradients> tensors;  // by Gradient
};
// `seed` is that of atomic orders; `threads` as in msda_options.
void compute(const Call& call, const Arithmetic& by, uint64_t seed, int threads, Gradients& result);

// An element out of tolerance.
struct Miss {
  Gradient gradient;
  int64_t slice = 0, flat = 0;
  double observed = 0, expected = 0;
  Cause cause = Cause::kImplementationError;
};

// What became of a run.
struct Run {
  bool fails = false;
  std::vector<Miss> misses;  // of kAllclose; at most kMostMisses
  int64_t missed = 0;        // how many there are
  // The largest |difference| - rtol * |expected| and, of elements beyond atol, (|difference| - atol) / |expected|: the
  // tolerances from which on the run passes, if they are above `look`'s.
  double needed_atol = 0, needed_rtol = 0;
  std::vector<double> slices_needed_atol;      // of the slices whose own is above `look`'s
  std::array<bool, kMostGradients> failing{};  // by Gradient
};
inline constexpr size_t kMostMisses = 1000;

// Runs of one plan, one after the other. Not thread-safe; each thread has its own.
class Simulator {
 public:
  explicit Simulator(const Plan& plan);
  Run run(int64_t number);

  // Returns the call of a slice with its inputs; valid until the next one.
  const Call& draw_slice(int64_t run, int64_t slice);

 private:
  void compare_slice(int64_t run, int64_t slice, const Tolerance& look, Run& result);
  void compare_all(const Call& call, const std::array<bool, kMostGradients>& wanted, int64_t run, int64_t slice,
                   Run& result);
  void compare_some(const Call& call, Gradient gradient, const std::vector<int64_t>& elements, int64_t slice,
                    Run& result);
  void compare_element(const Call& call, Gradient gradient, int64_t flat, double observed, double expected,
                       int64_t slice, Run& result);
  void run_anchored(int64_t number, Run& result);
  const Plan& plan_;
  std::unique_ptr<Screen> screen_;
  std::vector<std::vector<float>> drawn_;
  std::vector<std::vector<std::byte>> stored_;  // inputs of other types
  std::vector<uint32_t> bits_;
  std::shared_ptr<const Call> call_;
  Gradients observed_, expected_, exact_;
  Suspects suspects_;
};

// Returns how many elements of one call, as it is, miss the criterion; of an anchored one, how many gradients.
int64_t count_misses(const Call& call, const Arithmetic& observed, const Arithmetic& expected,
                     const Criterion& criterion, const Mask& mask, uint64_t seed, int threads);

// Returns the same of what was recorded, which is compared by the tolerance.
int64_t count_recorded_misses(const Call& call, const Side& recorded, const Arithmetic& expected,
                              const Tolerance& tolerance, int threads);

// Returns whether the side's gradients of samples are nearer to the contracted evaluation of its coordinates than to
// the written one; nothing if it has none, or if they are equally near.
std::optional<bool> looks_contracted(const Call& call, const Side& side, const Arithmetic& arithmetic);

// Returns why two arithmetics differ in an element: by where they land, or by rounding.
Cause cause_of(const Call& call, const ElementId& id, const Arithmetic& observed, const Arithmetic& expected);

}  // namespace msda::analysis::stress
