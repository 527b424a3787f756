// interpolate's backward kernels against a slow loop over output pixels in float64.
#include "kernels/interpolate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace msda::tests {
namespace {

using testing::HasSubstr;

double keys(double distance) {
  const double x = std::abs(distance), a = -0.75;
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

struct Tap {
  int64_t pixel;
  double weight;
};

// What an output pixel reads along an axis.
std::vector<Tap> taps_of(msda_resize mode, bool align_corners, int64_t in, int64_t out, double scale, int64_t output) {
  const double ratio = scale > 0 ? 1 / scale : static_cast<double>(in) / static_cast<double>(out);
  const auto i = static_cast<double>(output);
  const auto inside = [&](double pixel) { return std::clamp<int64_t>(static_cast<int64_t>(pixel), 0, in - 1); };
  if (mode == MSDA_RESIZE_NEAREST) return {{inside(std::floor(i * ratio)), 1}};
  if (mode == MSDA_RESIZE_NEAREST_EXACT) return {{inside(std::floor((i + 0.5) * ratio)), 1}};
  double at = (i + 0.5) * ratio - 0.5;
  if (align_corners) at = out > 1 ? i * static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  if (mode == MSDA_RESIZE_LINEAR) at = std::max(at, 0.0);
  const double low = std::min(std::floor(at), static_cast<double>(in - 1)), f = std::min(at - low, 1.0);
  if (mode == MSDA_RESIZE_LINEAR) return {{inside(low), 1 - f}, {inside(low + 1), f}};
  std::vector<Tap> taps;
  for (int k = -1; k <= 2; ++k) taps.push_back({inside(low + k), keys(f - k)});
  return taps;
}

struct Image {
  std::vector<int64_t> in, out;  // outermost first
  double scale[3] = {};          // of x, y, z
  msda_resize mode = MSDA_RESIZE_LINEAR;
  bool align_corners = false;

  static int64_t product(const std::vector<int64_t>& sides) {
    int64_t all = 1;
    for (const int64_t side : sides) all *= side;
    return all;
  }
  std::vector<double> drawn(uint32_t seed) const {
    std::mt19937 random(seed);
    std::normal_distribution<double> number;
    std::vector<double> all(static_cast<size_t>(2 * product(out)));
    for (double& x : all) x = number(random);
    return all;
  }
  template <class Real>
  std::vector<Real> backward(std::vector<Real> grad_output, msda_dtype dtype) const {
    std::vector<Real> result(static_cast<size_t>(2 * product(in)), Real(7));
    std::vector<int64_t> of_input{1, 2}, of_output{1, 2};
    of_input.insert(of_input.end(), in.begin(), in.end());
    of_output.insert(of_output.end(), out.begin(), out.end());
    const auto rank = static_cast<int32_t>(of_input.size());
    msda_interpolate_call call{
        mode, align_corners, {}, msda_contiguous(grad_output.data(), dtype, rank, of_output.data())};
    std::copy_n(scale, 3, call.scale);
    const msda_tensor grad_input = msda_contiguous(result.data(), dtype, rank, of_input.data());
    EXPECT_EQ(msda_interpolate_backward(&call, nullptr, &grad_input), MSDA_OK) << msda_last_error();
    return result;
  }
  std::vector<double> slow(const std::vector<double>& grad_output) const {
    std::vector<double> result(static_cast<size_t>(2 * product(in)));
    for (int64_t i = 0; i < static_cast<int64_t>(grad_output.size()); ++i) {
      send(grad_output[static_cast<size_t>(i)], 0, i % product(out), i / product(out), result);
    }
    return result;
  }

 private:
  void send(double x, size_t axis, int64_t rest, int64_t at, std::vector<double>& result) const {
    if (axis == in.size()) {
      result[static_cast<size_t>(at)] += x;
      return;
    }
    const int64_t inner = product({out.begin() + static_cast<int64_t>(axis) + 1, out.end()});
    const double given = scale[in.size() - 1 - axis];
    for (const Tap& tap : taps_of(mode, align_corners, in[axis], out[axis], given, rest / inner)) {
      send(x * tap.weight, axis + 1, rest % inner, at * in[axis] + tap.pixel, result);
    }
  }
};

TEST(Interpolate, AgreesWithASlowLoopInFloat64) {
  const std::vector<std::vector<int64_t>> shapes[] = {{{7}, {15}},           {{5}, {300}},       {{5, 8}, {10, 16}},
                                                      {{9, 4}, {4, 9}},      {{1, 1}, {70, 40}}, {{3, 4}, {3, 4}},
                                                      {{2, 3, 4}, {5, 6, 7}}};
  for (const auto mode : {MSDA_RESIZE_NEAREST, MSDA_RESIZE_NEAREST_EXACT, MSDA_RESIZE_LINEAR, MSDA_RESIZE_CUBIC}) {
    for (const bool align_corners : {false, true}) {
      for (const bool scaled : {false, true}) {
        for (const auto& shape : shapes) {
          Image image{shape[0], shape[1]};
          image.mode = mode;
          image.align_corners = align_corners;
          for (size_t i = 0; scaled && i < shape[0].size(); ++i) {
            image.scale[shape[0].size() - 1 - i] =
                1.013 * static_cast<double>(shape[1][i]) / static_cast<double>(shape[0][i]);
          }
          const auto grad_output = image.drawn(3);
          const auto wanted = image.slow(grad_output), found = image.backward(grad_output, MSDA_FLOAT64);
          for (size_t i = 0; i < wanted.size(); ++i) {
            ASSERT_NEAR(found[i], wanted[i], 1e-11) << "mode " << mode << ", sides " << shape[0].size() << ", " << i;
          }
        }
      }
    }
  }
}

TEST(Interpolate, SumsInFloat32AsDefined) {
  // Enlarged twice, a pixel inside reads four output pixels with weights 1/4, 3/4, 3/4, 1/4.
  const Image image{{5}, {10}};
  const auto drawn = image.drawn(5);
  std::vector<float> grad_output(drawn.begin(), drawn.end());
  const auto found = image.backward(grad_output, MSDA_FLOAT32);
  for (size_t pixel = 1; pixel < 4; ++pixel) {
    const float* x = grad_output.data() + 2 * pixel - 1;
    const float wanted = std::fma(0.25f, x[3], std::fma(0.75f, x[2], std::fma(0.75f, x[1], 0.25f * x[0])));
    EXPECT_EQ(found[pixel], wanted) << pixel;
  }
}

TEST(Interpolate, RefusesBadCallsInOneLine) {
  float numbers[64] = {};
  const int64_t in[] = {1, 2, 3, 4}, out[] = {1, 2, 4, 4};
  const auto expect_refused = [&](const char* why, auto&& change) {
    msda_interpolate_call call{MSDA_RESIZE_LINEAR, 0, {}, msda_contiguous(numbers, MSDA_FLOAT32, 4, out)};
    msda_tensor grad_input = msda_contiguous(numbers, MSDA_FLOAT32, 4, in);
    msda_options options{};
    change(call, grad_input, options);
    EXPECT_EQ(msda_interpolate_backward(&call, &options, &grad_input), MSDA_INVALID_ARGUMENT);
    EXPECT_THAT(msda_last_error(), HasSubstr(why));
  };
  expect_refused("no such mode", [](auto& call, auto&, auto&) { call.mode = static_cast<msda_resize>(4); });
  expect_refused("grad_output has rank 2", [](auto& call, auto&, auto&) { call.grad_output.rank = 2; });
  expect_refused("grad_output has rank 8", [](auto& call, auto&, auto&) { call.grad_output.rank = 8; });
  expect_refused("grad_input has rank 3", [](auto&, auto& grad_input, auto&) { grad_input.rank = 3; });
  expect_refused("grad_input has shape [1, 1,", [](auto&, auto& grad_input, auto&) { grad_input.shape[1] = 1; });
  expect_refused("a side of 0 pixels", [](auto&, auto& grad_input, auto&) { grad_input.shape[3] = 0; });
  expect_refused("grad_output has type int32", [](auto& call, auto&, auto&) { call.grad_output.dtype = MSDA_INT32; });
  expect_refused("scale 1 is nan", [](auto& call, auto&, auto&) { call.scale[1] = std::nan(""); });
  expect_refused("scale 0 is -1", [](auto& call, auto&, auto&) { call.scale[0] = -1; });
  expect_refused("no mode mixed", [](auto&, auto&, auto& options) { options.mode = MSDA_MODE_MIXED; });
}

}  // namespace
}  // namespace msda::tests
