#include "recorder/capture/schema.h"

#include <algorithm>
#include <array>

namespace msda::capture {
namespace {

using Names = std::string_view;
constexpr std::array<Names, 4> kValue{"batch", "pixel", "head", "channel"};
constexpr std::array<Names, 2> kShapes{"level", "height_width"};
constexpr std::array<Names, 1> kStarts{"level"};
constexpr std::array<Names, 6> kLocations{"batch", "query", "head", "level", "point", "xy"};
constexpr std::array<Names, 5> kWeights{"batch", "query", "head", "level", "point"};
constexpr std::array<Names, 4> kOutput{"batch", "query", "head", "channel"};
constexpr std::array<Names, 6> kCorners{"batch", "query", "head", "level", "point", "corner"};
constexpr std::array<Names, 7> kCornerChannels{"batch", "query", "head", "level", "point", "corner", "channel"};
constexpr std::array<Names, 6> kChannels{"batch", "query", "head", "level", "point", "channel"};

constexpr TensorSchema kTensors[] = {
    {"value", kValue, false},
    {"spatial_shapes", kShapes, true},
    {"level_start_index", kStarts, true},
    {"sampling_locations", kLocations, false},
    {"attention_weights", kWeights, false},
    {"output", kOutput, false},
    {"grad_output", kOutput, false},
    {"grad_value", kValue, false},
    {"grad_sampling_locations", kLocations, false},
    {"grad_attention_weights", kWeights, false},
};

constexpr TensorSchema kStages[] = {
    {"pixel_coordinates", kLocations, false},
    {"cell", kLocations, false},
    {"interpolation_weights", kCorners, false},
    {"corner_values", kCornerChannels, false},
    {"sampled_value", kChannels, false},
    {"grad_attention_weights", kWeights, false},
    {"grad_sampling_locations", kLocations, false},
    {"value_contributions", kCornerChannels, false},
    {"grad_value", kValue, false},
};

const TensorSchema* find(std::span<const TensorSchema> schemas, std::string_view name) {
  const auto found = std::ranges::find(schemas, name, &TensorSchema::name);
  return found == schemas.end() ? nullptr : &*found;
}

}  // namespace

const TensorSchema* find_tensor(std::string_view name) { return find(kTensors, name); }
const TensorSchema* find_stage(std::string_view name) { return find(kStages, name); }
std::span<const TensorSchema> all_stages() { return kStages; }

}  // namespace msda::capture
