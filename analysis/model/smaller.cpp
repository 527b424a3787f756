#include "analysis/model/smaller.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "kernels/names.h"

namespace msda::analysis {

OwnedTensor::OwnedTensor(std::string tensor_name, msda_dtype type, Index of_shape)
    : name(std::move(tensor_name)), dtype(type), shape(std::move(of_shape)) {
  const int64_t count = kernels::elements_of(shape);
  bytes.resize(static_cast<size_t>(count * kernels::bytes_of(dtype)));
}

std::vector<int64_t> all_indices(int64_t size) {
  std::vector<int64_t> indices(static_cast<size_t>(size));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  return indices;
}

Kept whole_of(const Tensor& tensor) {
  Kept whole;
  for (const int64_t size : tensor.shape) whole.push_back(all_indices(size));
  return whole;
}

OwnedTensor sliced(const std::string& name, const Tensor& tensor, const Kept& kept) {
  Index shape;
  for (const auto& indices : kept) shape.push_back(static_cast<int64_t>(indices.size()));
  OwnedTensor slice(name, tensor.dtype, shape);
  const auto size = static_cast<size_t>(kernels::bytes_of(tensor.dtype));
  const auto* from = static_cast<const std::byte*>(tensor.data);
  for_each_kept(tensor.shape, kept, [&](int64_t small, int64_t whole) {
    std::memcpy(slice.bytes.data() + static_cast<size_t>(small) * size, from + static_cast<size_t>(whole) * size, size);
  });
  return slice;
}

const OwnedTensor& tensor_named(std::span<const OwnedTensor> tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &OwnedTensor::name);
  if (found == tensors.end()) throw std::out_of_range("no tensor " + std::string(name));
  return *found;
}

}  // namespace msda::analysis
