// Arithmetic in which some steps of a gradient are rounded to fewer bits than the call's tensors have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/numbers/narrow.h"

namespace msda::analysis {

// What may be rounded, each a bit of a set. An operator has some of them, under names of its own.
enum Step : unsigned {
  kGradOutput = 1,
  kAttentionWeights = 2,
  kValue = 4,
  kLocations = 8,
  kInterpolationWeights = 16,
  kSampledValue = 32,        // of a channel; for grad_sampling_locations the slope of the sampled value
  kWeightedGradOutput = 64,  // grad_output * attention
  kAddends = 128,
  kResult = 256,
  kSums = 512  // every addition, and what is added
};
using Steps = unsigned;
inline constexpr Step kSteps[] = {kGradOutput,   kAttentionWeights,   kValue,   kLocations, kInterpolationWeights,
                                  kSampledValue, kWeightedGradOutput, kAddends, kSums,      kResult};

struct Narrowing {
  Narrow narrow = Narrow::kTf32Even;
  Steps steps = 0;

  bool rounds(Steps some) const { return (steps & some) != 0; }
  double round(Step step, double x) const { return rounds(step) ? round_to(narrow, x) : x; }
  Uncertain round(Step step, const Uncertain& x) const { return rounds(step) ? round_to(narrow, x) : x; }
};

// A narrowing that a side's values of a gradient have, and how that was decided.
struct FoundNarrowing : Narrowing {
  std::vector<Narrow> alike;  // all that fit as well as `narrow`, which is the first of them
  int64_t tried = 0;          // elements that arithmetic in the tensors' type does not explain
  int64_t fitting = 0;        // those of them that the narrowing explains
  double chance_bits = 0;     // errors of the same sizes, but of other origin, fit so well once in 2^chance_bits
};

}  // namespace msda::analysis
