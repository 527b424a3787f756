// What the adapters of this folder share: the tensors of the operator, and its table of levels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "recorder/adapters/decode.h"

namespace msda::adapters {

// The letters of kernels/msda.h.
struct Sizes {
  int64_t B, S, M, D, L, Q, P;
};

struct Addresses {
  uint64_t value, spatial_shapes;
  std::optional<uint64_t> level_start_index;  // absent if the kernel takes none
  uint64_t sampling_locations, attention_weights, grad_output;
  uint64_t grad_value, grad_sampling_locations, grad_attention_weights;
};

// Returns the call with the operator's tensors. Refused if a pointer is null, a size not positive, or a tensor of more
// bytes than 63 bits can count.
inline Decoded with_tensors(Call call, const Sizes& sizes, msda_dtype float_type, const Addresses& at) {
  const auto [B, S, M, D, L, Q, P] = sizes;
  const std::vector<int64_t> value{B, S, M, D}, locations{B, Q, M, L, P, 2}, weights{B, Q, M, L, P};
  call.inputs = {{{"value", float_type, value}, at.value}, {{"spatial_shapes", MSDA_INT64, {L, 2}}, at.spatial_shapes}};
  if (at.level_start_index) call.inputs.push_back({{"level_start_index", MSDA_INT64, {L}}, *at.level_start_index});
  call.inputs.push_back({{"sampling_locations", float_type, locations}, at.sampling_locations});
  call.inputs.push_back({{"attention_weights", float_type, weights}, at.attention_weights});
  call.inputs.push_back({{"grad_output", float_type, {B, Q, M, D}}, at.grad_output});
  call.outputs = {{{"grad_value", float_type, value}, at.grad_value},
                  {{"grad_sampling_locations", float_type, locations}, at.grad_sampling_locations},
                  {{"grad_attention_weights", float_type, weights}, at.grad_attention_weights}};
  return checked(std::move(call));
}

// spatial_shapes as int64 [levels,2] on the device; reads no more levels than requested.
class LevelTable {
 public:
  LevelTable(uint64_t address, const ReadDevice& read) : address_(address), read_(read) {}

  // Returns whether the table's first `levels` levels have `pixels` pixels in all; nothing if it cannot be read.
  std::optional<bool> adds_up(int64_t levels, int64_t pixels) {
    constexpr int64_t kMaxLevels = 1 << 16;  // more than any pyramid has; a wrong count cannot cause a large copy
    if (levels > kMaxLevels) return false;
    int64_t left = pixels;
    for (int64_t l = 0; l < levels; ++l) {
      if (levels - l > left) return false;  // every level has a pixel
      if (l == std::ssize(known_)) {
        decltype(known_) more(levels - l);
        const uint64_t from = address_ + l * sizeof more[0];
        if (!read_ || !read_(from, more.data(), more.size() * sizeof more[0])) return std::nullopt;
        known_.insert(known_.end(), more.begin(), more.end());
      }
      const auto [height, width] = known_[l];
      if (height < 1 || width < 1 || height > left / width) return false;
      left -= height * width;
    }
    return left == 0;
  }

 private:
  uint64_t address_;
  const ReadDevice& read_;
  std::vector<std::array<int64_t, 2>> known_;  // (height, width)
};

}  // namespace msda::adapters
