// The backward kernels of average pooling and padding against a slow loop over outputs in float64.
#include "kernels/separable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace msda::tests {
namespace {

using testing::HasSubstr;

struct Side {
  int64_t in, kernel = 1, stride = 1, before = 0, after = 0;
  int64_t out = 0;  // of adaptive pooling; else it follows
};

// What an output reads along a side, and how many elements its mean counts there.
struct Read {
  std::vector<int64_t> inputs;
  double count = 1;
};

struct Operator {
  msda_separable map;
  std::vector<Side> sides;  // outermost first
  bool ceil_mode = false, count_include_pad = false;
  int64_t divisor = 0;

  int64_t out(const Side& s) const {
    if (map == MSDA_ADAPTIVE_AVG_POOL) return s.out;
    if (map != MSDA_AVG_POOL) return s.in + s.before + s.after;
    const double windows = static_cast<double>(s.in + 2 * s.before - s.kernel) / static_cast<double>(s.stride);
    const auto count = static_cast<int64_t>(ceil_mode ? std::ceil(windows) : std::floor(windows)) + 1;
    return ceil_mode && (count - 1) * s.stride >= s.in + s.before ? count - 1 : count;
  }
  Read read(const Side& s, int64_t output) const {
    Read found;
    if (map == MSDA_REFLECTION_PAD || map == MSDA_REPLICATION_PAD) {
      int64_t at = output - s.before;
      if (map == MSDA_REFLECTION_PAD) at = at < 0 ? -at : at >= s.in ? 2 * (s.in - 1) - at : at;
      found.inputs = {std::clamp<int64_t>(at, 0, s.in - 1)};
      return found;
    }
    int64_t begin = output * s.stride - s.before, end = std::min(begin + s.kernel, s.in + s.before);
    if (map == MSDA_ADAPTIVE_AVG_POOL) {
      const double ratio = static_cast<double>(s.in) / static_cast<double>(s.out);
      begin = static_cast<int64_t>(std::floor(static_cast<double>(output) * ratio + 1e-9));
      end = static_cast<int64_t>(std::ceil(static_cast<double>(output + 1) * ratio - 1e-9));
    }
    found.count = static_cast<double>(end - begin);
    for (int64_t i = std::max<int64_t>(begin, 0); i < std::min(end, s.in); ++i) found.inputs.push_back(i);
    if (!count_include_pad) found.count = static_cast<double>(found.inputs.size());
    return found;
  }
  msda_separable_call call(const msda_tensor& grad_output) const {
    msda_separable_call call{};
    call.map = map;
    call.sides = static_cast<int32_t>(sides.size());
    call.ceil_mode = ceil_mode;
    call.count_include_pad = count_include_pad;
    call.divisor_override = divisor;
    for (size_t i = 0; i < sides.size(); ++i) {
      const Side& side = sides[sides.size() - 1 - i];
      call.kernel_size[i] = side.kernel;
      call.stride[i] = side.stride;
      call.padding[i] = side.before;
      call.padding_after[i] = side.after;
    }
    call.grad_output = grad_output;
    return call;
  }
};

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t all = 1;
  for (const int64_t size : sizes) all *= size;
  return all;
}

struct Backward {
  Operator op;
  std::vector<int64_t> in{2, 3}, out{2, 3};  // two images of three channels
  std::vector<double> grad_output;

  explicit Backward(const Operator& given) : op(given) {
    for (const Side& side : op.sides) {
      in.push_back(side.in);
      out.push_back(op.out(side));
    }
    std::mt19937 random(3);
    std::normal_distribution<double> number;
    grad_output.resize(static_cast<size_t>(product(out)));
    for (double& x : grad_output) x = number(random);
  }
  template <class Real>
  std::vector<Real> backward(msda_dtype dtype) const {
    std::vector<Real> from(grad_output.begin(), grad_output.end()), result(static_cast<size_t>(product(in)), Real(7));
    const auto rank = static_cast<int32_t>(in.size());
    const msda_separable_call call = op.call(msda_contiguous(from.data(), dtype, rank, out.data()));
    const msda_tensor grad_input = msda_contiguous(result.data(), dtype, rank, in.data());
    EXPECT_EQ(msda_separable_backward(&call, nullptr, &grad_input), MSDA_OK) << msda_last_error();
    return result;
  }
  std::vector<double> slow() const {
    std::vector<double> result(static_cast<size_t>(product(in)));
    for (int64_t i = 0; i < product(out); ++i) send(grad_output[static_cast<size_t>(i)], 0, i, 0, 1, result);
    return result;
  }

 private:
  // Sends x, which lies at `rest` in the dimensions from this one on, to the inputs that it read.
  void send(double x, size_t dimension, int64_t rest, int64_t at, double count, std::vector<double>& result) const {
    if (dimension == in.size()) {
      result[static_cast<size_t>(at)] += x / (op.divisor != 0 ? static_cast<double>(op.divisor) : count);
      return;
    }
    const int64_t inner = product({out.begin() + static_cast<int64_t>(dimension) + 1, out.end()});
    const Read read = dimension < 2 ? Read{{rest / inner}, 1} : op.read(op.sides[dimension - 2], rest / inner);
    for (const int64_t input : read.inputs) {
      send(x, dimension + 1, rest % inner, at * in[dimension] + input, count * read.count, result);
    }
  }
};

TEST(Separable, AgreesWithASlowLoopInFloat64) {
  std::vector<Operator> operators;
  for (const bool ceil_mode : {false, true}) {
    for (const bool counts : {false, true}) {
      for (const int64_t divisor : {0, 5, -2}) {
        for (const std::vector<Side>& sides : {std::vector<Side>{{17, 4, 3, 2}},
                                               {{60, 50, 1, 20}},
                                               {{7, 2, 2}, {8, 3, 2, 1}},
                                               {{5, 1, 3}, {6, 5, 4, 2}},
                                               {{4, 2, 1, 1}, {5, 3, 1, 1}, {6, 2, 3}}}) {
          operators.push_back({MSDA_AVG_POOL, sides, ceil_mode, counts, divisor});
        }
      }
    }
  }
  const auto to = [](int64_t in, int64_t out) { return Side{in, 1, 1, 0, 0, out}; };
  for (const std::vector<Side>& sides : {std::vector<Side>{to(13, 5)},
                                         {to(3, 100)},
                                         {to(12, 4), to(7, 7)},
                                         {to(7, 3), to(9, 11)},
                                         {to(4, 1), to(5, 2), to(6, 4)}}) {
    operators.push_back({MSDA_ADAPTIVE_AVG_POOL, sides});
  }
  const auto padded = [](int64_t in, int64_t before, int64_t after) { return Side{in, 1, 1, before, after}; };
  for (const auto map : {MSDA_REFLECTION_PAD, MSDA_REPLICATION_PAD}) {
    for (const std::vector<Side>& sides : {std::vector<Side>{padded(5, 4, 4)},
                                           {padded(9, -2, 3)},
                                           {padded(3, 1, -2), padded(6, 0, 5)},
                                           {padded(1, 0, 0), padded(4, 3, 2), padded(5, -4, 4)}}) {
      operators.push_back({map, sides});
    }
  }
  operators.push_back({MSDA_REPLICATION_PAD, {padded(2, 70, 40), padded(3, 0, 50)}});
  for (const Operator& op : operators) {
    const Backward drawn(op);
    const auto wanted = drawn.slow(), found = drawn.backward<double>(MSDA_FLOAT64);
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(found[i], wanted[i], 1e-12 * (1 + std::abs(wanted[i])))
          << "map " << op.map << ", sides " << op.sides.size() << ", " << i;
    }
  }
}

TEST(Separable, SumsInFloat32AsDefined) {
  // Windows of three, a step apart, over five: the middle is read by three outputs, each with the weight 1/3.
  const Backward drawn({MSDA_AVG_POOL, {{5, 3, 1}}});
  const std::vector<float> x(drawn.grad_output.begin(), drawn.grad_output.end());
  const float third = 1.0f / 3.0f;
  EXPECT_EQ(drawn.backward<float>(MSDA_FLOAT32)[2], std::fma(third, x[2], std::fma(third, x[1], third * x[0])));
}

TEST(Separable, RefusesBadCallsInOneLine) {
  float numbers[64] = {};
  const int64_t in[] = {1, 2, 4, 6}, out[] = {1, 2, 2, 3};
  const auto expect_refused = [&](const char* why, auto&& change) {
    const Operator pool{MSDA_AVG_POOL, {{4, 2, 2}, {6, 2, 2}}};
    msda_separable_call call = pool.call(msda_contiguous(numbers, MSDA_FLOAT32, 4, out));
    msda_tensor grad_input = msda_contiguous(numbers, MSDA_FLOAT32, 4, in);
    msda_options options{};
    change(call, grad_input, options);
    EXPECT_EQ(msda_separable_backward(&call, &options, &grad_input), MSDA_INVALID_ARGUMENT);
    EXPECT_THAT(msda_last_error(), HasSubstr(why));
  };
  expect_refused("no such separable map", [](auto& call, auto&, auto&) { call.map = static_cast<msda_separable>(4); });
  expect_refused("0 sides", [](auto& call, auto&, auto&) { call.sides = 0; });
  expect_refused("grad_output has rank 2", [](auto& call, auto&, auto&) { call.grad_output.rank = 2; });
  expect_refused("grad_output has rank 8", [](auto& call, auto&, auto&) { call.grad_output.rank = 8; });
  expect_refused("grad_input has rank 3", [](auto&, auto& grad_input, auto&) { grad_input.rank = 3; });
  expect_refused("grad_input has shape [1, 1,", [](auto&, auto& grad_input, auto&) { grad_input.shape[1] = 1; });
  expect_refused("grad_output has type int64", [](auto& call, auto&, auto&) { call.grad_output.dtype = MSDA_INT64; });
  expect_refused("a side of 0", [](auto&, auto& grad_input, auto&) { grad_input.shape[3] = 0; });
  expect_refused("a side of 1099511627776",
                 [](auto&, auto& grad_input, auto&) { grad_input.shape[3] = int64_t{1} << 40; });
  expect_refused("3 elements along side 0, not 2", [](auto&, auto& grad_input, auto&) { grad_input.shape[3] = 5; });
  expect_refused("2 elements along side 1, not 1", [](auto& call, auto&, auto&) { call.stride[1] = 3; });
  expect_refused("kernel_size[0] is 0", [](auto& call, auto&, auto&) { call.kernel_size[0] = 0; });
  expect_refused("stride[1] is -1", [](auto& call, auto&, auto&) { call.stride[1] = -1; });
  expect_refused("stride[1] is 9223372036854775807", [](auto& call, auto&, auto&) { call.stride[1] = INT64_MAX; });
  expect_refused("at most half of kernel_size, 2", [](auto& call, auto&, auto&) { call.padding[0] = 2; });
  expect_refused("a reflection of 6 inputs has at most 5", [](auto& call, auto&, auto&) {
    call.map = MSDA_REFLECTION_PAD;
    call.padding[0] = 6;
  });
  expect_refused("padding_after[0] is -9223372036854775808", [](auto& call, auto&, auto&) {
    call.map = MSDA_REPLICATION_PAD;
    call.padding_after[0] = INT64_MIN;
  });
  expect_refused("no mode mixed", [](auto&, auto&, auto& options) { options.mode = MSDA_MODE_MIXED; });
}

}  // namespace
}  // namespace msda::tests
