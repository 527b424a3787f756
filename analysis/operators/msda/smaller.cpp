// Deformable attention's calls made smaller: by batches, heads, queries, levels, points and channels, by the sides of
// levels.
#include <algorithm>

#include "analysis/operators/msda/call.h"

namespace msda::analysis {
namespace {

enum CutNumber { kBatches, kHeads, kQueries, kLevels, kPoints, kChannels };

// Pixels of these levels.
std::vector<int64_t> pixels_of(const MsdaCall& call, const std::vector<int64_t>& levels) {
  std::vector<int64_t> pixels;
  for (const int64_t l : levels) {
    const LevelSize& level = call.levels[static_cast<size_t>(l)];
    for (int64_t i = 0; i < int64_t{level.height} * level.width; ++i) pixels.push_back(level.start + i);
  }
  return pixels;
}

}  // namespace

std::vector<Cut> MsdaCall::cuts() const {
  return {{"batch", "B", B}, {"head", "M", M},  {"query", "Q", Q},
          {"level", "L", L}, {"point", "P", P}, {"channel", "D", D}};
}

std::vector<int> MsdaCall::cuts_of(std::string_view tensor) const {
  if (tensor == "value" || tensor == "grad_value") return {kBatches, -1, kHeads, kChannels};
  if (tensor == "spatial_shapes") return {kLevels, -1};
  if (tensor == "grad_output") return {kBatches, kQueries, kHeads, kChannels};
  std::vector<int> of_samples{kBatches, kQueries, kHeads, kLevels, kPoints};
  if (tensor.ends_with("sampling_locations")) of_samples.push_back(-1);
  return of_samples;
}

Kept MsdaCall::kept_of(std::string_view tensor, const Kept& kept) const {
  Kept result = Call::kept_of(tensor, kept);
  if (tensor == "value" || tensor == "grad_value") result[1] = pixels_of(*this, kept[kLevels]);
  return result;
}

std::vector<int64_t> MsdaCall::cut_indices(const ElementId& id) const {
  std::vector<int64_t> indices = Call::cut_indices(id);
  if (id.gradient.scattered()) indices[kLevels] = level_at(kernels::index_of(image.shape, id.flat)[1]);
  return indices;
}

std::vector<Image> MsdaCall::images() const {
  std::vector<Image> images;
  for (size_t l = 0; l < levels.size(); ++l) {
    images.push_back({"level " + std::to_string(l), {"H", "W"}, {levels[l].height, levels[l].width}});
  }
  return images;
}

Inputs MsdaCall::cropped(size_t number, size_t side, int64_t first, int64_t count) const {
  const LevelSize& level = levels[number];
  const int axis = side == 0 ? 1 : 0;  // height is y
  Kept pixels{all_indices(B), {}, all_indices(M), all_indices(D)};
  for (int64_t s = 0; s < S; ++s) {
    const int64_t within = s - level.start;
    const bool here = within >= 0 && within < int64_t{level.height} * level.width;
    const int64_t along = side == 0 ? within / level.width : within % level.width;
    if (!here || (along >= first && along < first + count)) pixels[1].push_back(s);
  }
  Inputs smaller = with_image(pixels);
  store_integer(smaller[1], static_cast<int64_t>(2 * number + side), count);
  const auto reads_it = [&](int64_t sample) { return &level_of(sample) == &level; };
  if (!move_locations(smaller[2], axis, side_of(level, axis), first, count, reads_it)) return {};
  return smaller;
}

}  // namespace msda::analysis
