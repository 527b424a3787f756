// Hand-made launches, and the adapters' results as text.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "recorder/adapters/adapter.h"
#include "recorder/adapters/tensor_info.h"

namespace msda::adapters {

// Parameters one after the other, each aligned as its type is.
class Packer {
 public:
  template <typename T>
  Packer& add(T value) {
    const size_t offset = (launch_.bytes.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    launch_.bytes.resize(offset + sizeof value);
    std::memcpy(&launch_.bytes[offset], &value, sizeof value);
    launch_.parameters.push_back({offset, sizeof value});
    return *this;
  }

  Launch launch(std::string kernel) {
    launch_.kernel = std::move(kernel);
    return launch_;
  }

 private:
  Launch launch_;
};

// Returns what a kernel receives for a row-major tensor.
template <size_t kDims>
PackedAccessor<kDims> accessor(uint64_t data, const std::array<int64_t, kDims>& sizes) {
  PackedAccessor<kDims> made{data, sizes, {}};
  int64_t stride = 1;
  for (size_t i = kDims; i-- > 0; stride *= sizes[i]) made.strides[i] = stride;
  return made;
}

inline const Adapter* adapter_for(std::string_view kernel) {
  for (const auto& adapter : built_in()) {
    if (adapter->matches(kernel)) return adapter.get();
  }
  return nullptr;
}

inline Decoded decode(const Launch& launch, const ReadDevice& read) {
  const Adapter* adapter = adapter_for(launch.kernel);
  return adapter ? adapter->decode(launch, read) : Refusal{"no adapter"};
}

inline std::string reason(const Decoded& decoded) {
  const auto* refusal = std::get_if<Refusal>(&decoded);
  return refusal ? refusal->reason : "not refused";
}

// "name address type [shape]" of each tensor, and its strides if it is not row-major.
inline std::vector<std::string> describe(const std::vector<DeviceTensor>& tensors) {
  const std::map<std::string, std::string> types{{"float16", "f16"}, {"bfloat16", "bf16"}, {"float32", "f32"},
                                                 {"float64", "f64"}, {"int32", "i32"},     {"int64", "i64"},
                                                 {"uint8", "u8"}};
  const auto listed = [](const std::vector<int64_t>& numbers) {
    std::string text;
    for (const int64_t number : numbers) text += (text.empty() ? "[" : ",") + std::to_string(number);
    return text + "]";
  };
  std::vector<std::string> words;
  for (const DeviceTensor& t : tensors) {
    words.push_back(t.name + " " + std::to_string(t.address) + " " + types.at(kernels::name_of(t.type)) + " " +
                    listed(t.shape));
    if (!t.strides.empty()) words.back() += " strides " + listed(t.strides);
  }
  return words;
}

}  // namespace msda::adapters
