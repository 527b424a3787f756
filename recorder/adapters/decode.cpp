#include "recorder/adapters/decode.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "recorder/tensors/tensor.h"

namespace msda::adapters {
int64_t DeviceTensor::bytes() const { return extent_of(*this).value_or(tensors::Extent{}).end; }

std::variant<LaunchShape, Refusal> Adapter::with_block(const Launch&, uint32_t) const {
  return Refusal{"how its grid follows from its block is not known"};
}

std::optional<Refusal> fault_of(const DeviceTensor& tensor) {
  const auto format_list = [](std::span<const int64_t> numbers) {
    std::string words;
    for (const int64_t number : numbers) words += (words.empty() ? "" : ",") + std::to_string(number);
    return "[" + words + "]";
  };
  const std::string& name = tensor.name;
  const auto &shape = tensor.shape, &strides = tensor.strides;
  if (tensor.address == 0) return Refusal{name + " is a null pointer"};
  if (std::ranges::any_of(shape, [](int64_t size) { return size < 1; })) {
    return Refusal{name + " has a size that is not positive: " + format_list(shape)};
  }
  if (!strides.empty() && strides.size() != shape.size()) {
    return Refusal{name + " has strides " + format_list(strides) + " for sizes " + format_list(shape)};
  }
  if (std::ranges::any_of(strides, [](int64_t stride) { return stride < 0; })) {
    return Refusal{name + " has a negative stride: " + format_list(strides)};
  }
  if (!extent_of(tensor)) {
    return Refusal{name + " is too large to be true: " + format_list(shape) +
                   (strides.empty() ? "" : " with strides " + format_list(strides))};
  }
  return std::nullopt;
}

Decoded checked(Call call) {
  for (const auto* group : {&call.inputs, &call.outputs}) {
    for (const DeviceTensor& tensor : *group) {
      if (auto fault = fault_of(tensor)) return *std::move(fault);
    }
  }
  return call;
}

void drop_row_major_strides(DeviceTensor& tensor) {
  if (extent_of(tensor)->contiguous) tensor.strides.clear();
}

bool has_layout(const Launch& launch, std::span<const Slot> slots) {
  if (launch.parameters.size() != slots.size()) return false;
  uint64_t end = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto& [size, alignment] = slots[i];
    const uint64_t offset = (end + alignment - 1) / alignment * alignment;
    if (launch.parameters[i].offset != offset || launch.parameters[i].size != size) return false;
    end = offset + size;
  }
  return end <= launch.bytes.size();
}

std::string describe_layout(const Launch& launch) {
  if (launch.parameters.empty()) return "parameters of unknown size";
  std::string words = std::to_string(launch.parameters.size()) + " parameters of";
  for (const Parameter& p : launch.parameters) words += " " + std::to_string(p.size);
  return words + " bytes";
}

std::vector<Pointer> pointers_at(const Launch& launch,
                                 std::initializer_list<std::pair<size_t, const char*>> parameters) {
  std::vector<Pointer> pointers;
  for (const auto& [index, tensor] : parameters) pointers.push_back({launch.parameters[index].offset, tensor});
  return pointers;
}

LaunchShape shape_of_loop(int64_t n, uint32_t threads, uint32_t shared_bytes) {
  constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max();
  const int64_t blocks = std::clamp<int64_t>((n - 1) / threads + 1, 1, kMostBlocks);
  return {{static_cast<uint32_t>(blocks), 1, 1}, {threads, 1, 1}, shared_bytes};
}

std::optional<int64_t> product(std::span<const int64_t> factors) {
  int64_t result = 1;
  for (const int64_t factor : factors) {
    if (factor < 1 || result > std::numeric_limits<int64_t>::max() / factor) return std::nullopt;
    result *= factor;
  }
  return result;
}

}  // namespace msda::adapters
