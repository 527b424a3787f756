// Analytic gradients against derivatives of the forward pass by finite differences, in float64.
//
// Along a sample's coordinate the forward pass is smooth between multiples of half a pixel: cells, clips, reflections
// and skipped samples begin and end there. Differences are taken within such a piece, with a step that is a part of a
// pixel, through four points, which is exact but for rounding for polynomials up to the third degree: all that
// operators have between samples. Where a coordinate lies on a kink within its rounding error, each side has its own
// derivative, and an analytic gradient may be any of them or lie between.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "analysis/model/side.h"

namespace msda::analysis {

// The derivatives that an element may have.
struct Derivatives {
  double lowest = 0, highest = 0;  // equal, but for rounding, where there is no kink
  double below = 0, above = 0;     // for smaller and for larger coordinates
  double error = 0;                // bound on that of the differences
  bool kink = false;               // a kink lies within the coordinate's rounding error
};

// `precision`: in which the coordinate was computed. Nothing if no number of pieces that could be tried is enough, or
// the forward pass is not finite.
std::optional<Derivatives> derivatives_of(const Call& call, const ElementId& id, const Precision& precision);

// As torch.autograd.gradcheck does: one central difference with this step.
inline constexpr double kNaiveStep = 1e-6, kNaiveAtol = 1e-5, kNaiveRtol = 1e-3;
double naive_derivative(const Call& call, const ElementId& id);

// A side's value of an element.
struct CheckedValue {
  double value = 0, bound = 0;  // bound: of its rounding and of the differences
  double distance = 0;          // from the derivatives that there are
  bool passes = false;
};
// `derivatives`: in the precision of the side. Nothing if the bound is infinite.
std::optional<CheckedValue> check_value(const Call& call, const Side& side, const ElementId& id,
                                        const Derivatives& derivatives, Cache& cache);

struct GradcheckSettings {
  int64_t samples = 1000;  // drawn at random, and so many of those nearest to kinks
  bool all = false;        // every element
  uint64_t seed = 0;
  int threads = 0;
};

struct FailedElement {
  ElementId id;
  CheckedValue checked;
  Derivatives derivatives;
};

// What became of one side's gradient.
struct SideCheck {
  std::string side;
  int64_t checked = 0, failed = 0, not_checked = 0;
  std::vector<FailedElement> worst;  // at most kMostWorst, the farthest from their bound first
};
inline constexpr size_t kMostWorst = 10;

struct GradientCheck {
  Gradient gradient;
  int64_t total = 0, sampled = 0, at_kinks = 0;
  int64_t naive_failed = 0;           // of the first side's values
  int64_t naive_failed_at_kinks = 0;  // those of them whose difference reaches over a kink
  std::vector<SideCheck> sides;
};

// The first side is the operator's float64 gradient. Sides without a gradient are not checked for it.
std::vector<GradientCheck> gradcheck(const Call& call, std::span<const Side> sides, const GradcheckSettings& settings);

}  // namespace msda::analysis
