#include "replay/calls/load_operator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/model/abi.h"
#include "analysis/operators/grid_sample/call.h"
#include "analysis/operators/msda/call.h"
#include "analysis/operators/own/call.h"
#include "kernels/names.h"
#include "kernels/sample.h"
#include "replay/base/errors.h"
#include "replay/calls/facts.h"
#include "replay/calls/load_scatter.h"
#include "replay/calls/operator_row.h"
#include "replay/own/own_operator.h"

namespace msda::replay {
namespace {

msda_padding padding_from(const std::string& name, const std::string& where) {
  if (const auto padding = kernels::padding_named(name)) return *padding;
  throw BadInput(fmt::format("{}: unknown padding_mode \"{}\"; there are zeros and border", where, name));
}

std::shared_ptr<const analysis::Call> msda_call_of(const capture::Invocation& invocation, const std::string& where,
                                                   const GetInput& input) {
  auto call = std::make_shared<analysis::MsdaCall>();
  call->conventions = {dialect_from(invocation.facts.dialect, where),
                       padding_from(invocation.facts.padding_mode, where), invocation.facts.align_corners};
  call->value = input("value");
  call->spatial_shapes = input("spatial_shapes");
  call->sampling_locations = input("sampling_locations");
  call->attention_weights = input("attention_weights");
  call->grad_output = input("grad_output");

  // A call without results only checks the shapes against each other.
  analysis::AbiCall abi = abi_call(*call);
  if (find(invocation.inputs, "level_start_index") != nullptr) {
    abi.call.level_start_index = abi_tensor(input("level_start_index"));
  }
  if (msda_backward(&abi.call, &abi.grad_output, nullptr, nullptr, nullptr, nullptr) != MSDA_OK) {
    throw BadInput(fmt::format("{}: {}", where, msda_last_error()));
  }
  call->take_sizes();
  return call;
}

// Checks input [N,C,(D,)H,W] and grid [N,(D,)H,W,2 or 3].
void check_sizes(const analysis::GridSampleCall& call, const std::string& where) {
  const analysis::Index &in = call.input.shape, &grid = call.grid.shape;
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
  check_tensor(call.input, in, "input", where);
  check_tensor(call.grid, of_grid, "grid", where);
  check_tensor(call.grad_output, of_output, "grad_output", where);
}

std::shared_ptr<const analysis::Call> grid_sample_call_of(const capture::Invocation& invocation,
                                                          const std::string& where, const GetInput& input) {
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
  call->input = input("input");
  call->grid = input("grid");
  call->grad_output = input("grad_output");
  check_sizes(*call, where);
  call->take_sizes();
  if (call->axes_count == 3 && *named == MSDA_BICUBIC) {
    throw BadInput(fmt::format("{}: bicubic interpolation of a 3D input, which grid_sample does not have", where));
  }
  return call;
}

}  // namespace

msda_dialect dialect_from(const std::string& name, const std::string& where) {
  if (const auto dialect = kernels::dialect_named(name)) return *dialect;
  throw BadInput(
      fmt::format("{}: unknown dialect \"{}\"; there are deformable_detr, msda_triton and grid_sample", where, name));
}

std::string operator_of(const capture::Invocation& invocation) {
  if (const OwnOperator* own = own_operator_of(invocation)) return own->name();
  const auto rows = operator_rows();
  const auto found = std::ranges::find_if(rows, [&](const OperatorRow& row) { return row.marks(invocation); });
  return found == rows.end() ? "" : found->name;
}

std::string why_too_large(const capture::Invocation& invocation, const std::string& where, const GetInput& input) {
  return operator_of(invocation) == "roi_align" ? why_roi_align_is_too_large(invocation, where, input) : "";
}

std::shared_ptr<const analysis::Call> call_of(const capture::Invocation& invocation, const std::string& where,
                                              const GetInput& input, const GetResult& before, const GetResult& recorded,
                                              const GetResult& reference) {
  if (const OwnOperator* own = own_operator_of(invocation)) {
    const auto result = [&](const std::string& name) { return recorded(name.c_str()); };
    return std::make_shared<analysis::OwnCall>(own->bind(
        invocation, where, [&](const std::string& name) { return input(name.c_str()); }, result));
  }
  const std::string name = operator_of(invocation);
  if (name == "grid_sample") return grid_sample_call_of(invocation, where, input);
  if (name == "scatter_add") return scatter_add_call_of(invocation, where, input, before);
  if (name == "interpolate") return interpolate_call_of(invocation, where, input, before, recorded, reference);
  if (name == "roi_align") return roi_align_call_of(invocation, where, input);
  return msda_call_of(invocation, where, input);
}

}  // namespace msda::replay
