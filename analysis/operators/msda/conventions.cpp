#include "analysis/operators/msda/conventions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "analysis/operators/msda/stages.h"

namespace msda::analysis {
namespace {

struct Query {
  int64_t b, q;
  bool operator<(const Query& other) const { return std::pair(b, q) < std::pair(other.b, other.q); }
};

// Some of those that have elements in the groups, spread over them.
std::vector<Query> queries_of(const MsdaCall& call, const std::vector<Group>& groups) {
  std::set<Query> all;
  for (const Group& group : groups) {
    if (group.advisory || group.gradient == MsdaGradient::kValue) continue;
    for (const auto& [flat, count] : group.runs) {
      for (int64_t i = flat; i < flat + count; ++i) {
        const Coordinates at = call.coordinates_of(group.gradient, i);
        all.insert({at[MsdaDimension::kBatch.place()], at[MsdaDimension::kQuery.place()]});
      }
    }
  }
  constexpr size_t kMost = 32;
  std::vector<Query> some;
  size_t place = 0;
  for (const Query& query : all) {
    if (place++ % (all.size() / kMost + 1) == 0) some.push_back(query);
  }
  return some;
}

// How many elements of the side's gradients of samples are not what float64 gives under these conventions.
int64_t misses(const MsdaCall& call, const Conventions& conventions, const Side& side,
               const std::vector<Query>& queries, const Tolerance& tolerance, int threads) {
  constexpr std::pair<Gradient, msda_stage_id> kStages[] = {
      {MsdaGradient::kSamplingLocations, MSDA_STAGE_GRAD_SAMPLING_LOCATIONS},
      {MsdaGradient::kAttentionWeights, MSDA_STAGE_GRAD_ATTENTION_WEIGHTS}};
  int64_t count = 0;
  for (const auto& [gradient, stage] : kStages) {
    const Tensor& tensor = side.of(gradient);
    if (!tensor) continue;
    for (const Query& query : queries) {
      const auto truth = stage_of_queries(call, conventions, query.b, query.q, 1, stage, MSDA_MODE_FLOAT64, threads);
      const auto width = static_cast<int64_t>(truth.size());
      const int64_t first = (query.b * call.Q + query.q) * width;
      for (int64_t i = 0; i < width; ++i) {
        const double value = tensor.at(first + i), expected = truth[static_cast<size_t>(i)];
        count += !tolerance.holds(value, expected) && !(std::isnan(value) && std::isnan(expected));
      }
    }
  }
  return count;
}

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

// The call with height and width of each level exchanged; `memory` holds its new shapes.
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

std::vector<Fit> fitting_conventions(const MsdaCall& call, const Side& recorded, const std::vector<Group>& groups,
                                     const Tolerance& tolerance, int threads) {
  const std::vector<Query> queries = queries_of(call, groups);
  const int64_t before = misses(call, call.conventions, recorded, queries, tolerance, threads);
  constexpr int64_t kFewest = 4;  // that say more than chance
  if (before < kFewest) return {};
  std::vector<int64_t> memory;
  const MsdaCall swapped = with_swapped_shapes(call, memory);
  std::vector<Fit> fits;
  for (const Fit& fit : alternatives(call.conventions)) {
    const int64_t after = misses(fit.swapped ? swapped : call, fit.conventions, recorded, queries, tolerance, threads);
    if (after * 50 <= before) fits.push_back(fit);
  }
  return fits;
}

}  // namespace msda::analysis
