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

void MsdaCall::take_sizes() {
  B = value.shape[0];
  S = value.shape[1];
  M = value.shape[2];
  D = value.shape[3];
  Q = sampling_locations.shape[1];
  L = sampling_locations.shape[3];
  P = sampling_locations.shape[4];
  levels.clear();
  int64_t start = 0;
  for (int64_t l = 0; l < L; ++l) {
    const auto height = static_cast<int32_t>(spatial_shapes.at(2 * l));
    const auto width = static_cast<int32_t>(spatial_shapes.at(2 * l + 1));
    levels.push_back({height, width, start});
    start += int64_t{height} * width;
  }
}

std::vector<NamedTensor> MsdaCall::all_inputs() const {
  auto all = inputs();
  all.insert(all.begin() + 1, {"spatial_shapes", spatial_shapes});
  return all;
}

std::shared_ptr<const Call> MsdaCall::with_inputs(std::span<const OwnedTensor> given) const {
  auto call = std::make_shared<MsdaCall>();
  call->conventions = conventions;
  call->value = tensor_named(given, "value").view();
  call->spatial_shapes = tensor_named(given, "spatial_shapes").view();
  call->sampling_locations = tensor_named(given, "sampling_locations").view();
  call->attention_weights = tensor_named(given, "attention_weights").view();
  call->grad_output = tensor_named(given, "grad_output").view();
  call->take_sizes();
  return call;
}

std::vector<Cut> MsdaCall::cuts() const {
  return {{"batch", "B", B}, {"head", "M", M},  {"query", "Q", Q},
          {"level", "L", L}, {"point", "P", P}, {"channel", "D", D}};
}

Kept MsdaCall::kept_of(std::string_view tensor, const Kept& kept) const {
  const auto &b = kept[kBatches], &m = kept[kHeads], &q = kept[kQueries], &l = kept[kLevels], &p = kept[kPoints],
             &d = kept[kChannels];
  if (tensor == "value" || tensor == "grad_value") return {b, pixels_of(*this, l), m, d};
  if (tensor == "spatial_shapes") return {l, {0, 1}};
  if (tensor == "grad_output") return {b, q, m, d};
  Kept of_samples{b, q, m, l, p};
  if (tensor == "sampling_locations" || tensor == "grad_sampling_locations") of_samples.push_back({0, 1});
  return of_samples;
}

std::vector<int64_t> MsdaCall::cut_indices(const ElementId& id) const {
  const Coordinates at = coordinates_of(id.gradient, id.flat);
  using Of = MsdaDimension;
  return {at[Of::kBatch.place()], at[Of::kHead.place()],  at[Of::kQuery.place()],
          at[Of::kLevel.place()], at[Of::kPoint.place()], at[Of::kChannel.place()]};
}

std::vector<Image> MsdaCall::images() const {
  std::vector<Image> images;
  for (size_t l = 0; l < levels.size(); ++l) {
    images.push_back({"level " + std::to_string(l), {"H", "W"}, {levels[l].height, levels[l].width}});
  }
  return images;
}

Inputs MsdaCall::cropped(size_t image, size_t side, int64_t first, int64_t count) const {
  const LevelSize& level = levels[image];
  const int axis = side == 0 ? 1 : 0;  // height is y
  const auto old_size = side_of(level, axis), new_size = static_cast<int32_t>(count);
  Kept pixels{all_indices(B), {}, all_indices(M), all_indices(D)};
  for (int64_t s = 0; s < S; ++s) {
    const int64_t within = s - level.start;
    const bool here = within >= 0 && within < int64_t{level.height} * level.width;
    const int64_t along = side == 0 ? within / level.width : within % level.width;
    if (!here || (along >= first && along < first + count)) pixels[1].push_back(s);
  }
  Inputs smaller;
  for (const auto& [name, tensor] : all_inputs()) {
    smaller.push_back(sliced(name, tensor, std::string_view(name) == "value" ? pixels : whole_of(tensor)));
  }
  OwnedTensor &shapes = smaller[1], &locations = smaller[2];
  store_integer(shapes, static_cast<int64_t>(2 * image + side), count);
  const CoordinateMap before = coordinate_map(old_size), after = coordinate_map(new_size);
  if (after.factor == 0) return {};
  for (int64_t i = 0; i < sample_count(); ++i) {
    if (i / P % L != static_cast<int64_t>(image)) continue;
    const double pixel = before.pixel(sampling_locations.at(2 * i + axis)) - static_cast<double>(first);
    store(locations.bytes.data(), locations.dtype, 2 * i + axis, after.location(pixel));
  }
  return smaller;
}

Inputs MsdaCall::merged_channels() const {
  if (B * Q * M != 1) return {};
  Inputs merged;
  for (const auto& [name, tensor] : all_inputs()) merged.push_back(sliced(name, tensor, whole_of(tensor)));
  merged[0] = OwnedTensor("value", value.dtype, {1, S, 1, 1});
  for (int64_t s = 0; s < S; ++s) {
    double sum = 0;
    for (int64_t d = 0; d < D; ++d) sum += grad_output.at(d) * value.at(s * D + d);
    store(merged[0].bytes.data(), value.dtype, s, sum);
  }
  merged[4] = OwnedTensor("grad_output", grad_output.dtype, {1, 1, 1, 1});
  store(merged[4].bytes.data(), grad_output.dtype, 0, 1);
  return merged;
}

}  // namespace msda::analysis
