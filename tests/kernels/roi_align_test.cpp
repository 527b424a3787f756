// ROIAlign's backward kernels against a slow loop over points in float64.
#include "kernels/roi_align.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace msda::tests {
namespace {

using testing::HasSubstr;

struct Boxes {
  int64_t N = 2, C = 3, H = 17, W = 23, K = 90, bins_y = 3, bins_x = 4;
  double spatial_scale = 0.5;
  int32_t sampling_ratio = 0;
  bool aligned = false;
  std::vector<double> boxes, grad_output;

  explicit Boxes(uint32_t seed) : grad_output(static_cast<size_t>(K * C * bins_y * bins_x)) {
    std::mt19937 random(seed);
    std::normal_distribution<double> number;
    std::uniform_real_distribution<double> place(-0.3, 1.2), size(-0.05, 0.8);
    for (int64_t k = 0; k < K; ++k) {
      const double x = place(random) * static_cast<double>(W), y = place(random) * static_cast<double>(H);
      const double right = x + size(random) * static_cast<double>(W), down = y + size(random) * static_cast<double>(H);
      for (const double edge : {x, y, right, down}) {
        if (boxes.size() % 5 == 0) boxes.push_back(static_cast<double>(k % N));
        boxes.push_back(edge / spatial_scale);
      }
    }
    for (double& x : grad_output) x = number(random);
  }
  int64_t results() const { return N * C * H * W; }

  msda_roi_align_call call() {
    const int64_t of_boxes[] = {K, 5}, of_output[] = {K, C, bins_y, bins_x};
    return {spatial_scale, sampling_ratio, aligned, msda_contiguous(boxes.data(), MSDA_FLOAT64, 2, of_boxes),
            msda_contiguous(grad_output.data(), MSDA_FLOAT64, 4, of_output)};
  }
  msda_tensor result(std::vector<double>& numbers) const {
    const int64_t shape[] = {N, C, H, W};
    return msda_contiguous(numbers.data(), MSDA_FLOAT64, 4, shape);
  }
  std::vector<double> backward(const msda_options& options = {}) {
    std::vector<double> numbers(static_cast<size_t>(results()), 7);
    const msda_roi_align_call roi_align_call = call();
    const msda_tensor grad_input = result(numbers);
    EXPECT_EQ(msda_roi_align_backward(&roi_align_call, &options, &grad_input), MSDA_OK) << msda_last_error();
    return numbers;
  }
  std::vector<double> slow() const {
    std::vector<double> numbers(static_cast<size_t>(results()));
    for (int64_t k = 0; k < K; ++k) {
      const double *box = boxes.data() + 5 * k, offset = aligned ? 0.5 : 0;
      const double x = box[1] * spatial_scale - offset, y = box[2] * spatial_scale - offset;
      double width = box[3] * spatial_scale - offset - x, height = box[4] * spatial_scale - offset - y;
      if (!aligned) {
        width = std::max(width, 1.0);
        height = std::max(height, 1.0);
      }
      const double wide = width / static_cast<double>(bins_x), high = height / static_cast<double>(bins_y);
      const int64_t columns = sampling_ratio > 0 ? sampling_ratio : static_cast<int64_t>(std::ceil(wide));
      const int64_t rows = sampling_ratio > 0 ? sampling_ratio : static_cast<int64_t>(std::ceil(high));
      for (int64_t bin = 0; bin < bins_x * bins_y; ++bin) {
        for (int64_t point = 0; point < std::max<int64_t>(rows, 0) * std::max<int64_t>(columns, 0); ++point) {
          const auto at = [&](double start, double length, int64_t number, int64_t i, int64_t points) {
            return start +
                   (static_cast<double>(number) + (static_cast<double>(i) + 0.5) / static_cast<double>(points)) *
                       length;
          };
          send(k, bin, at(x, wide, bin % bins_x, point % columns, columns),
               at(y, high, bin / bins_x, point / columns, rows), 1 / static_cast<double>(rows * columns), numbers);
        }
      }
    }
    return numbers;
  }

 private:
  void send(int64_t k, int64_t bin, double x, double y, double share, std::vector<double>& numbers) const {
    if (x < -1 || y < -1 || x > static_cast<double>(W) || y > static_cast<double>(H)) return;
    x = std::clamp(x, 0.0, static_cast<double>(W - 1));
    y = std::clamp(y, 0.0, static_cast<double>(H - 1));
    const auto image = static_cast<int64_t>(boxes[static_cast<size_t>(5 * k)]);
    for (int64_t row = 0; row < H; ++row) {
      for (int64_t column = 0; column < W; ++column) {
        const double weight = std::max(0.0, 1 - std::abs(x - static_cast<double>(column))) *
                              std::max(0.0, 1 - std::abs(y - static_cast<double>(row)));
        for (int64_t c = 0; weight > 0 && c < C; ++c) {
          numbers[static_cast<size_t>(((image * C + c) * H + row) * W + column)] +=
              weight * share * grad_output[static_cast<size_t>((k * C + c) * bins_x * bins_y + bin)];
        }
      }
    }
  }
};

TEST(RoiAlign, AgreesWithASlowLoopInFloat64) {
  for (const int32_t ratio : {0, 1, 2, 3}) {
    for (const bool aligned : {false, true}) {
      Boxes boxes(7);
      boxes.sampling_ratio = ratio;
      boxes.aligned = aligned;
      const auto wanted = boxes.slow(), found = boxes.backward();
      for (size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_NEAR(found[i], wanted[i], 1e-11) << "ratio " << ratio << ", aligned " << aligned << ", " << i;
      }
    }
  }
}

TEST(RoiAlign, SameBitsOnAnyThreadCount) {
  Boxes boxes(3);
  const auto once = boxes.backward({MSDA_MODE_DETERMINISTIC, 1, 0, 0});
  EXPECT_EQ(boxes.backward({MSDA_MODE_DETERMINISTIC, 3, 0, 0}), once);
  EXPECT_EQ(boxes.backward({MSDA_MODE_FLOAT64, 2, 0, 0}), once);
}

TEST(RoiAlign, BoxesThatAreNoNumbersReachNothing) {
  Boxes boxes(3);
  const auto before = boxes.backward();
  Boxes strange = boxes;
  strange.K += 2;
  strange.boxes.insert(strange.boxes.end(), {0, std::nan(""), 1, 5, 5, 0, 1, 1, INFINITY, 5});
  strange.grad_output.resize(static_cast<size_t>(strange.K * strange.C * strange.bins_x * strange.bins_y), 1.0);
  EXPECT_EQ(strange.backward(), before);
}

TEST(RoiAlign, RefusesBadCallsInOneLine) {
  Boxes boxes(1);
  std::vector<double> numbers(static_cast<size_t>(boxes.results()));
  const auto expect_refused = [&](const char* why, auto&& change) {
    msda_roi_align_call call = boxes.call();
    msda_tensor grad_input = boxes.result(numbers);
    change(call, grad_input);
    EXPECT_EQ(msda_roi_align_backward(&call, nullptr, &grad_input), MSDA_INVALID_ARGUMENT);
    EXPECT_THAT(msda_last_error(), HasSubstr(why));
  };
  expect_refused("grad_output has rank 3", [](auto& call, auto&) { call.grad_output.rank = 3; });
  expect_refused("grad_output has shape [90, 3,", [](auto&, auto& grad_input) { grad_input.shape[1] = 2; });
  expect_refused("boxes has shape [90, 4]", [](auto& call, auto&) { call.boxes.shape[1] = 4; });
  expect_refused("boxes has type int64", [](auto& call, auto&) { call.boxes.dtype = MSDA_INT64; });
  expect_refused("spatial_scale is nan", [](auto& call, auto&) { call.spatial_scale = std::nan(""); });
  expect_refused("sampling_ratio is 5000", [](auto& call, auto&) { call.sampling_ratio = 5000; });
  expect_refused("a side of 0 pixels", [](auto&, auto& grad_input) { grad_input.shape[2] = 0; });
  boxes.boxes[10] = 2;
  expect_refused("boxes: number 2 is of image 2; there are 2", [](auto&, auto&) {});
}

}  // namespace
}  // namespace msda::tests
