// Visits the elements of a strided tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace msda::replay {

// Calls visit(row-major index, index in memory) for each element; both count elements. No size may be 0.
template <class Visit>
void for_each_element(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, Visit&& visit) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t flat = 0; flat < elements; ++flat) {
    int64_t place = 0;
    for (size_t i = 0; i < shape.size(); ++i) place += index[i] * strides[i];
    visit(flat, place);
    for (size_t i = shape.size(); i-- > 0 && ++index[i] == shape[i];) index[i] = 0;
  }
}

inline void gather(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, size_t size,
                   const std::byte* memory, std::byte* row_major) {
  for_each_element(shape, strides, [&](int64_t flat, int64_t place) {
    std::memcpy(row_major + static_cast<size_t>(flat) * size, memory + static_cast<size_t>(place) * size, size);
  });
}

inline void scatter(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, size_t size,
                    const std::byte* row_major, std::byte* memory) {
  for_each_element(shape, strides, [&](int64_t flat, int64_t place) {
    std::memcpy(memory + static_cast<size_t>(place) * size, row_major + static_cast<size_t>(flat) * size, size);
  });
}

}  // namespace msda::replay
