// Where a strided tensor's elements lie, compared with an enumeration of every element.
#include "recorder/tensors/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

namespace msda::tests {
namespace {

using namespace msda::tensors;
using TensorSizes = std::vector<int64_t>;

// The place of each element, in elements from the first, in row-major order.
TensorSizes places(const TensorSizes& shape, const TensorSizes& strides) {
  TensorSizes all{0};
  for (size_t i = 0; i < shape.size(); ++i) {
    TensorSizes next;
    for (const int64_t at : all) {
      for (int64_t k = 0; k < shape[i]; ++k) next.push_back(at + k * strides[i]);
    }
    all = next;
  }
  return all;
}

TEST(TensorExtent, IsWhereEveryElementLies) {
  struct Case {
    TensorSizes shape, strides;
  };
  for (const auto& [shape, strides] : {Case{{}, {}},
                                       {{5}, {1}},
                                       {{3, 4}, {4, 1}},
                                       {{3, 4}, {1, 3}},
                                       {{3, 4}, {0, 0}},
                                       {{2, 3, 4}, {-12, 4, 1}},
                                       {{2, 3}, {-5, -1}},
                                       {{1, 7}, {99, 1}},
                                       {{3, 4}, {8, 2}}}) {
    const TensorSizes at = places(shape, strides);
    const auto [least, most] = std::ranges::minmax(at);
    const auto extent = extent_of(shape, strides, 4);
    ASSERT_TRUE(extent);
    EXPECT_EQ(extent->elements, static_cast<int64_t>(at.size()));
    EXPECT_EQ(extent->dense, 4 * extent->elements);
    EXPECT_EQ(extent->begin, 4 * least);
    EXPECT_EQ(extent->end, 4 * (most + 1));
    TensorSizes in_order(at.size());
    for (size_t i = 0; i < at.size(); ++i) in_order[i] = static_cast<int64_t>(i);
    EXPECT_EQ(extent->contiguous, at == in_order);
    std::vector<int32_t> memory(static_cast<size_t>(most - least + 1)), copy(at.size());
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<int32_t>(i);
    copy_row_major(reinterpret_cast<const std::byte*>(memory.data() - least), shape, strides, 4,
                   reinterpret_cast<std::byte*>(copy.data()));
    for (size_t i = 0; i < at.size(); ++i) EXPECT_EQ(copy[i], at[i] - least);
  }
}

// Slices, steps, reversed, repeated and permuted dimensions, longer than the tiles that the copy goes by.
TEST(CopyRowMajor, CopiesEveryElementOfAnyStridesAndBack) {
  std::mt19937 random(7);
  const auto below = [&](int64_t end) { return static_cast<int64_t>(random() % static_cast<uint64_t>(end)); };
  for (int round = 0; round < 300; ++round) {
    const int64_t element_bytes = int64_t{1} << below(5);
    TensorSizes shape(static_cast<size_t>(1 + below(4))), strides(shape.size());
    for (int64_t& size : shape) size = 1 + below(round % 3 == 0 ? 70 : 9);
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    int64_t step = 1 + below(2);
    for (const size_t i : order) {
      strides[i] = below(8) == 0 ? 0 : (below(4) == 0 ? -step : step);
      step *= shape[i] + below(2);
    }
    const auto extent = extent_of(shape, strides, element_bytes);
    ASSERT_TRUE(extent);
    if (extent->elements > 400000) continue;
    std::vector<std::byte> memory(static_cast<size_t>(extent->end - extent->begin)),
        copy(static_cast<size_t>(extent->dense));
    for (std::byte& byte : memory) byte = static_cast<std::byte>(random());
    const std::byte* first = memory.data() - extent->begin;
    copy_row_major(first, shape, strides, element_bytes, copy.data());
    const TensorSizes at = places(shape, strides);
    for (size_t i = 0; i < at.size(); ++i) {
      ASSERT_EQ(std::memcmp(&copy[i * static_cast<size_t>(element_bytes)], first + at[i] * element_bytes,
                            static_cast<size_t>(element_bytes)),
                0);
    }
    std::vector<std::byte> back(memory.size());
    copy_from_row_major(copy.data(), shape, strides, element_bytes, back.data() - extent->begin);
    for (const int64_t place : at) {
      const int64_t offset = place * element_bytes - extent->begin;
      ASSERT_EQ(std::memcmp(&back[static_cast<size_t>(offset)], &memory[static_cast<size_t>(offset)],
                            static_cast<size_t>(element_bytes)),
                0);
    }
  }
}

TEST(TensorExtent, IsEmptyWithoutElements) {
  const auto extent = extent_of(TensorSizes{4, 0, 5}, TensorSizes{7, -7, 7}, 8);
  ASSERT_TRUE(extent);
  EXPECT_EQ(extent->elements, 0);
  EXPECT_EQ(extent->dense, 0);
  EXPECT_EQ(extent->begin, extent->end);
}

TEST(TensorExtent, IsRefusedWhereItCannotBe) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_FALSE(extent_of(TensorSizes{-1}, {}, 4));
  EXPECT_FALSE(extent_of(TensorSizes{0, -1}, {}, 4));
  EXPECT_FALSE(extent_of(TensorSizes{2, 3}, TensorSizes{1}, 4));
  EXPECT_FALSE(extent_of(TensorSizes{kMost}, {}, 4));
  EXPECT_FALSE(extent_of(TensorSizes{kMost, kMost}, {}, 1));
  EXPECT_FALSE(extent_of(TensorSizes{kMost, kMost, 0}, {}, 1));  // in any order
  EXPECT_FALSE(extent_of(TensorSizes{0, kMost, kMost}, {}, 1));
  EXPECT_FALSE(extent_of(TensorSizes{2}, TensorSizes{kMost}, 4));
  EXPECT_FALSE(extent_of(TensorSizes{3}, TensorSizes{std::numeric_limits<int64_t>::min()}, 1));
}

}  // namespace
}  // namespace msda::tests
