#include "tests/support/grid_problem.h"

#include <random>

#include "kernels/names.h"

namespace msda::tests {

using analysis::GridSampleCall;

std::vector<Variant> all_variants() {
  std::vector<Variant> all;
  for (const int axes : {2, 3}) {
    for (const auto interpolation : {MSDA_BILINEAR, MSDA_NEAREST, MSDA_BICUBIC}) {
      if (axes == 3 && interpolation == MSDA_BICUBIC) continue;
      for (const auto padding : {MSDA_GRID_ZEROS, MSDA_GRID_BORDER, MSDA_GRID_REFLECTION}) {
        for (const bool align : {false, true}) all.push_back({axes, interpolation, padding, align});
      }
    }
  }
  return all;
}

std::string name_of(const Variant& variant) {
  return std::to_string(variant.axes) + "D " + kernels::name_of(variant.interpolation) + " " +
         kernels::name_of(variant.padding) + (variant.align_corners ? " aligned" : "");
}

GridProblem make_grid_problem(const Variant& variant, msda_dtype dtype, uint64_t seed, const GridSizes& sizes,
                              double reach) {
  std::mt19937_64 random(seed);
  const auto numbers = [&](std::vector<int64_t> shape, double low, double high) {
    std::vector<double> values(static_cast<size_t>(kernels::elements_of(shape)));
    for (double& value : values) value = std::uniform_real_distribution(low, high)(random);
    return OwnedTensor(values, dtype, shape);
  };
  const auto with = [&](std::vector<int64_t> first, const std::vector<int64_t>& by_axis) {
    for (int axis = variant.axes - 1; axis >= 0; --axis) first.push_back(by_axis[static_cast<size_t>(axis)]);
    return first;
  };
  GridProblem problem;
  problem.input = numbers(with({sizes.N, sizes.C}, sizes.image), -1, 1);
  auto of_grid = with({sizes.N}, sizes.samples);
  of_grid.push_back(variant.axes);
  problem.grid = numbers(of_grid, -reach, reach);
  problem.grad_output = numbers(with({sizes.N, sizes.C}, sizes.samples), -1, 1);
  GridSampleCall& call = problem.call;
  call.interpolation = variant.interpolation;
  call.padding = variant.padding;
  call.align_corners = variant.align_corners;
  call.image = problem.input.view;
  call.locations = problem.grid.view;
  call.grad_output = problem.grad_output.view;
  call.take_sizes();
  return problem;
}

}  // namespace msda::tests
