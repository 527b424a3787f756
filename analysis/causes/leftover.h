// What an output buffer held before the launch: whose result that was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "analysis/model/material.h"

namespace msda::analysis {

// The result of an earlier launch in a buffer that was not zeroed.
struct Leftover {
  std::optional<int64_t> invocation;  // empty: a launch of the same inputs that the capture does not have
  std::string tensor, digest;
  int64_t launches = 1;  // of the same inputs, added up
  bool recorded = true;  // the buffer's contents are in the capture; otherwise they are taken for that result
  Tensor contents;       // of the buffer
  EarlierResult source;  // keeps them
};

// The contents are those of an earlier result if their digests are equal, or all elements but for zeros are; those of
// launches of the same inputs if all are the same multiple of the gradient within rounding. Without recorded contents,
// an earlier result counts as them if the gradient and nothing else is what all of the side's values have beyond it.
std::optional<Leftover> find_leftover(const Material& material, const Side& recorded, Gradient gradient, Cache& cache);

}  // namespace msda::analysis
