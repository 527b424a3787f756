#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/operators/grid_sample/call.h"
#include "kernels/names.h"
#include "kernels/sample.h"
#include "replay/base/errors.h"
#include "replay/calls/facts.h"
#include "replay/calls/load_operator.h"

namespace msda::replay {
namespace {

// Checks input [N,C,(D,)H,W] and grid [N,(D,)H,W,2 or 3].
void check_sizes(const analysis::GridSampleCall& call, const std::string& where) {
  const analysis::Index &in = call.image.shape, &grid = call.locations.shape;
  const size_t rank = in.size();
  if ((rank != 4 && rank != 5) || grid.size() != rank || grid.back() != static_cast<int64_t>(rank) - 2) {
    throw BadInput(
        fmt::format("{}: input has shape {} and grid {}; grid_sample takes input [N,C,(D,)H,W] and grid "
                    "[N,(D,)H,W,2 or 3]",
                    where, in, grid));
  }
  analysis::Index of_grid{in[0]}, of_output{in[0], in[1]};
  for (size_t i = 2; i < rank; ++i) {
    if (in[i] < 1 || in[i] > kernels::kMaxLevelSide) {
      throw BadInput(fmt::format("{}: input has shape {}: its sides must be 1 to 2^24", where, in));
    }
    of_grid.push_back(grid[i - 1]);
    of_output.push_back(grid[i - 1]);
  }
  of_grid.push_back(grid.back());
  check_tensor(call.image, in, "input", where);
  check_tensor(call.locations, of_grid, "grid", where);
  check_tensor(call.grad_output, of_output, "grad_output", where);
}

std::shared_ptr<const analysis::Call> load_grid_sample(const CallSource& source) {
  const auto& [invocation, where, input, recorded, before, reference] = source;
  auto call = std::make_shared<analysis::GridSampleCall>();
  const std::string interpolation = text_of(invocation, "interpolation"), padding = text_of(invocation, "padding_mode");
  const auto named = kernels::interpolation_named(interpolation);
  if (!named) {
    throw BadInput(
        fmt::format("{}: unknown interpolation \"{}\"; there are bilinear, nearest and bicubic", where, interpolation));
  }
  const auto pads = kernels::grid_padding_named(padding);
  if (!pads) {
    throw BadInput(
        fmt::format("{}: unknown padding_mode \"{}\"; there are zeros, border and reflection", where, padding));
  }
  call->interpolation = *named;
  call->padding = *pads;
  call->align_corners = flag_of(invocation, "align_corners", where);
  call->image = input("input");
  call->locations = input("grid");
  call->grad_output = input("grad_output");
  check_sizes(*call, where);
  call->take_sizes();
  if (call->axes_count == 3 && *named == MSDA_BICUBIC) {
    throw BadInput(fmt::format("{}: bicubic interpolation of a 3D input, which grid_sample does not have", where));
  }
  return call;
}

}  // namespace

extern const OperatorLoader loader_of_grid_sample{load_grid_sample};

}  // namespace msda::replay
