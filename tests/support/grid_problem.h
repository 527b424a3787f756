// Random calls of grid_sample.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/operators/grid_sample/call.h"
#include "tests/support/problem.h"

namespace msda::tests {

struct Variant {
  int axes;
  msda_interpolation interpolation;
  msda_grid_padding padding;
  bool align_corners;
};

std::vector<Variant> all_variants();
std::string name_of(const Variant& variant);

// A call that owns its tensors.
struct GridProblem {
  OwnedTensor input, grid, grad_output;
  analysis::GridSampleCall call;
};

struct GridSizes {
  int64_t N = 2, C = 5;
  std::vector<int64_t> image{4, 7, 6}, samples{3, 5, 2};  // by axis: x, y, z
};

// Coordinates of the grid lie in [-reach, reach).
GridProblem make_grid_problem(const Variant& variant, msda_dtype dtype, uint64_t seed, const GridSizes& sizes = {},
                              double reach = 1.7);

}  // namespace msda::tests
