// scatter_add's kernels against a slow loop in float64, and their order of additions against the tree written out.
#include "kernels/scatter_add.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <vector>

namespace msda::tests {
namespace {

using testing::HasSubstr;

// A call on float32 rows of `channels` numbers.
struct Rows {
  std::vector<int64_t> index;
  std::vector<float> source;
  int64_t rows, channels;
  msda_scatter_scale scale = MSDA_SCATTER_SUM;
  bool include_self = false;
  int64_t padding = -1;

  int64_t n() const { return static_cast<int64_t>(index.size()); }
  msda_scatter_add_call call() {
    const int64_t of_index[] = {n()}, of_source[] = {n(), channels};
    return {scale,
            0,
            include_self,
            padding,
            msda_contiguous(index.data(), MSDA_INT64, 1, of_index),
            msda_contiguous(source.data(), MSDA_FLOAT32, 2, of_source)};
  }
  template <class Real>
  std::vector<Real> sum(msda_dtype dtype, const msda_options& options = {}, Real held = 0) {
    std::vector<Real> sums(static_cast<size_t>(rows * channels), held);
    const int64_t shape[] = {rows, channels};
    const msda_tensor tensor = msda_contiguous(sums.data(), dtype, 2, shape);
    const msda_scatter_add_call scatter_add_call = call();
    EXPECT_EQ(msda_scatter_add(&scatter_add_call, &options, &tensor), MSDA_OK) << msda_last_error();
    return sums;
  }
};

Rows random_rows(int64_t n, int64_t rows, int64_t channels, double share_of_first, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> number;
  std::uniform_int_distribution<int64_t> row(0, rows - 1);
  std::bernoulli_distribution is_first(share_of_first);
  Rows made{{}, {}, rows, channels};
  for (int64_t j = 0; j < n; ++j) made.index.push_back(is_first(random) ? 0 : row(random));
  for (int64_t j = 0; j < n * channels; ++j) made.source.push_back(number(random));
  return made;
}

TEST(ScatterAdd, AgreesWithASlowLoopInFloat64) {
  for (const auto scale : {MSDA_SCATTER_SUM, MSDA_SCATTER_MEAN, MSDA_SCATTER_BY_FREQUENCY}) {
    for (const bool include_self : {false, true}) {
      Rows rows = random_rows(9000, 50, 3, 0.6, 7);
      rows.scale = scale;
      rows.include_self = include_self;
      rows.padding = 4;
      std::map<int64_t, double> counts;
      for (const int64_t row : rows.index) ++counts[row];
      std::vector<double> wanted(150, include_self ? 2.5 : 0);
      for (int64_t j = 0; j < rows.n(); ++j) {
        const int64_t row = rows.index[static_cast<size_t>(j)];
        for (int64_t c = 0; row != 4 && c < 3; ++c) {
          const double x = rows.source[static_cast<size_t>(3 * j + c)];
          wanted[static_cast<size_t>(3 * row + c)] += scale == MSDA_SCATTER_BY_FREQUENCY ? x / counts[row] : x;
        }
      }
      for (int64_t row = 0; scale == MSDA_SCATTER_MEAN && row < 50; ++row) {
        const double given = (row == 4 ? 0 : counts[row]) + (include_self ? 1 : 0);
        for (int64_t c = 0; c < 3; ++c) wanted[static_cast<size_t>(3 * row + c)] /= std::max(given, 1.0);
      }
      const auto single = rows.sum<float>(MSDA_FLOAT32, {}, 2.5f);
      const auto wide = rows.sum<double>(MSDA_FLOAT64, {MSDA_MODE_FLOAT64, 0, 0, 0}, 2.5);
      for (size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_NEAR(single[i], wanted[i], 1e-3) << i;
        EXPECT_NEAR(wide[i], wanted[i], 1e-10) << i;
      }
    }
  }
}

// Runs of 32, runs of such sums, and so on.
float tree(std::vector<float> level) {
  while (level.size() > 1) {
    std::vector<float> sums;
    for (size_t i = 0; i < level.size(); ++i) {
      if (i % 32 == 0) {
        sums.push_back(level[i]);
      } else {
        sums.back() += level[i];
      }
    }
    level = sums;
  }
  return level[0];
}

TEST(ScatterAdd, AddsByTheTreeOfRuns) {
  for (const int64_t n : {1, 2, 31, 32, 33, 1023, 1024, 1025, 4096, 4097, 5000, 32768, 32769, 70000}) {
    Rows rows = random_rows(n, 1, 1, 1, static_cast<uint32_t>(n));
    EXPECT_EQ(rows.sum<float>(MSDA_FLOAT32)[0], 0.0f + tree(rows.source)) << n;
    for (const int threads : {1, 3}) {
      EXPECT_EQ(rows.sum<float>(MSDA_FLOAT32, {MSDA_MODE_DETERMINISTIC, threads, 0, 0})[0], 0.0f + tree(rows.source));
    }
  }
}

TEST(ScatterAdd, RowsThatNoIndexNamesKeepWhatTheyHeld) {
  Rows rows = random_rows(10, 3, 2, 1, 1);
  rows.include_self = true;
  const auto sums = rows.sum<float>(MSDA_FLOAT32, {}, -0.0f);
  for (size_t i = 2; i < 6; ++i) EXPECT_TRUE(sums[i] == 0 && std::signbit(sums[i])) << i;
  rows.include_self = false;
  const auto cleared = rows.sum<float>(MSDA_FLOAT32, {}, 7.0f);
  for (size_t i = 2; i < 6; ++i) EXPECT_TRUE(cleared[i] == 0 && !std::signbit(cleared[i])) << i;
}

TEST(ScatterAdd, AnExpandedIndexIsOneOfRows) {
  Rows rows = random_rows(300, 20, 5, 0.3, 3);
  msda_scatter_add_call call = rows.call();
  std::vector<int64_t> whole;
  for (const int64_t row : rows.index) whole.insert(whole.end(), 5, row);
  const int64_t shape[] = {300, 5}, of_sum[] = {20, 5};
  std::vector<float> expanded(100), element_by_element(100);
  msda_tensor sum = msda_contiguous(expanded.data(), MSDA_FLOAT32, 2, of_sum);
  call.index.rank = 2;
  call.index.shape[1] = 5;
  call.index.stride[1] = 0;
  ASSERT_EQ(msda_scatter_add(&call, nullptr, &sum), MSDA_OK) << msda_last_error();
  call.index = msda_contiguous(whole.data(), MSDA_INT64, 2, shape);
  sum.data = element_by_element.data();
  ASSERT_EQ(msda_scatter_add(&call, nullptr, &sum), MSDA_OK) << msda_last_error();
  EXPECT_EQ(expanded, rows.sum<float>(MSDA_FLOAT32));
  EXPECT_EQ(element_by_element, expanded);
}

TEST(ScatterAdd, RefusesBadCallsInOneLine) {
  Rows rows = random_rows(10, 3, 2, 0, 1);
  std::vector<float> sums(6);
  const int64_t shape[] = {3, 2}, flat[] = {6};
  const auto expect_refused = [&](const char* why, auto&& change) {
    msda_scatter_add_call call = rows.call();
    msda_tensor sum = msda_contiguous(sums.data(), MSDA_FLOAT32, 2, shape);
    msda_options options{};
    change(call, sum, options);
    EXPECT_EQ(msda_scatter_add(&call, &options, &sum), MSDA_INVALID_ARGUMENT);
    EXPECT_THAT(msda_last_error(), HasSubstr(why));
  };
  expect_refused("no such scale", [](auto& call, auto&, auto&) { call.scale = static_cast<msda_scatter_scale>(9); });
  expect_refused("dim is 2", [](auto& call, auto&, auto&) { call.dim = 2; });
  expect_refused("source has rank 8", [](auto& call, auto&, auto&) { call.source.rank = 8; });
  expect_refused("index has shape [9], not [10]", [](auto& call, auto&, auto&) { call.index.shape[0] = 9; });
  expect_refused("index has type float32", [](auto& call, auto&, auto&) { call.index.dtype = MSDA_FLOAT32; });
  expect_refused("source has type int64", [](auto& call, auto&, auto&) { call.source.dtype = MSDA_INT64; });
  expect_refused("sum has rank 1",
                 [&](auto&, auto& sum, auto&) { sum = msda_contiguous(sums.data(), MSDA_FLOAT32, 1, flat); });
  expect_refused("sum has shape [3, 5]", [](auto&, auto& sum, auto&) { sum.shape[1] = 5; });
  expect_refused("sum has stride 0 in dimension 1", [](auto&, auto& sum, auto&) { sum.stride[1] = 0; });
  expect_refused("no mode atomic", [](auto&, auto&, auto& options) { options.mode = MSDA_MODE_ATOMIC; });
  rows.index[7] = 3;
  expect_refused("index: number 7 is 3; sum has 3 rows", [](auto&, auto&, auto&) {});
  rows.index[7] = -1;
  expect_refused("index: number 7 is -1", [](auto&, auto&, auto&) {});
}

}  // namespace
}  // namespace msda::tests
