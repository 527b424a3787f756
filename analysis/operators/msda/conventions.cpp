// The other dialects, paddings, values of align_corners and orders of spatial_shapes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/model/fits.h"
#include "analysis/operators/msda/call.h"

namespace msda::analysis {
namespace {

std::vector<Fit> alternatives(const Conventions& recorded) {
  std::vector<Fit> fits;
  for (const bool swapped : {false, true}) {
    for (const msda_dialect dialect : {recorded.dialect, MSDA_MSDA_TRITON, MSDA_DEFORMABLE_DETR}) {
      for (const msda_padding padding : {MSDA_PADDING_ZEROS, MSDA_PADDING_BORDER}) {
        for (const bool align : {false, true}) {
          if (dialect == MSDA_DEFORMABLE_DETR && (padding != MSDA_PADDING_ZEROS || align)) continue;
          std::vector<std::string> changes;
          // In float64 the dialects differ in their paddings and in align_corners alone.
          if (padding != recorded.padding) {
            changes.push_back(fmt::format("padding {} in place of {}", msda_padding_name(padding),
                                          msda_padding_name(recorded.padding)));
          }
          if (align != recorded.align_corners) {
            changes.push_back(fmt::format("align_corners {} in place of {}", align, recorded.align_corners));
          }
          if (swapped) changes.push_back("spatial_shapes as (width, height) in place of (height, width)");
          if (changes.empty()) continue;
          const std::string text = fmt::format("{}", fmt::join(changes, " and "));
          if (std::ranges::find(fits, text, &Fit::text) != fits.end()) continue;
          fits.push_back({{dialect, padding, align}, swapped, text});
        }
      }
    }
  }
  std::ranges::stable_sort(fits, {}, [](const Fit& fit) { return std::ranges::count(fit.text, ' '); });
  return fits;
}

// Returns the call with height and width of each level exchanged; `memory` holds its new shapes.
MsdaCall with_swapped_shapes(const MsdaCall& call, std::vector<int64_t>& memory) {
  MsdaCall swapped = call;
  memory.clear();
  for (LevelSize& level : swapped.levels) {
    std::swap(level.height, level.width);
    memory.insert(memory.end(), {level.height, level.width});
  }
  swapped.spatial_shapes = {memory.data(), MSDA_INT64, {call.L, 2}};
  return swapped;
}

}  // namespace

std::vector<Fit> MsdaCall::fitting_conventions(const Side& side, const std::vector<Group>& groups,
                                               const Tolerance& tolerance) const {
  const TriedElements tried(*this, side, groups, tolerance);
  if (!tried.are_unexplained()) return {};
  std::vector<int64_t> memory;
  const MsdaCall swapped = with_swapped_shapes(*this, memory);
  std::vector<Fit> fits;
  for (const Fit& fit : alternatives(conventions)) {
    MsdaCall tried_call = fit.swapped ? swapped : *this;
    tried_call.conventions = fit.conventions;
    if (tried.fit(tried_call)) fits.push_back(fit);
  }
  return fits;
}

}  // namespace msda::analysis
