#include "tests/support/problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "recorder/capture/digest.h"

namespace msda::tests {

using analysis::Conventions;
using analysis::Gradient;

int64_t Sizes::S() const {
  int64_t pixels = 0;
  for (const auto& [height, width] : levels) pixels += int64_t{height} * width;
  return pixels;
}

OwnedTensor& OwnedTensor::operator=(const OwnedTensor& owned_tensor) {
  memory = owned_tensor.memory;
  view = owned_tensor.view;
  view.data = memory.data();
  return *this;
}

OwnedTensor::OwnedTensor(const std::vector<double>& values, msda_dtype dtype, const std::vector<int64_t>& shape) {
  EXPECT_EQ(static_cast<int64_t>(values.size()), kernels::elements_of(shape));
  *this = for_result(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) set(static_cast<int64_t>(i), values[i]);
}

OwnedTensor OwnedTensor::for_result(msda_dtype dtype, const std::vector<int64_t>& shape) {
  OwnedTensor tensor;
  // A byte more than needed, so that an empty tensor has data too.
  tensor.memory.assign(static_cast<size_t>(kernels::elements_of(shape) * kernels::bytes_of(dtype)) + 1,
                       std::byte{0x5a});
  tensor.view = {tensor.memory.data(), dtype, shape};
  return tensor;
}

std::span<const std::byte> OwnedTensor::bytes() const {
  return {memory.data(), static_cast<size_t>(view.elements() * kernels::bytes_of(view.dtype))};
}

void OwnedTensor::set(int64_t flat, double value) {
  if (view.dtype == MSDA_INT32) {
    reinterpret_cast<int32_t*>(memory.data())[flat] = static_cast<int32_t>(value);
  } else if (view.dtype == MSDA_INT64) {
    reinterpret_cast<int64_t*>(memory.data())[flat] = static_cast<int64_t>(value);
  } else {
    analysis::store(memory.data(), view.dtype, flat, value);
  }
}

std::vector<double> OwnedTensor::values() const {
  std::vector<double> result;
  for (int64_t i = 0; i < view.elements(); ++i) result.push_back(view.at(i));
  return result;
}

analysis::MsdaCall Problem::call() const {
  analysis::MsdaCall call;
  call.conventions = conventions;
  call.spatial_shapes = spatial_shapes.view;
  call.image = value.view;
  call.locations = sampling_locations.view;
  call.factors = attention_weights.view;
  call.grad_output = grad_output.view;
  call.take_sizes();
  return call;
}

std::vector<int64_t> Problem::shape_of(Gradient gradient) const {
  return gradient == analysis::MsdaGradient::kValue               ? value.view.shape
         : gradient == analysis::MsdaGradient::kSamplingLocations ? sampling_locations.view.shape
                                                                  : attention_weights.view.shape;
}

std::string Problem::text() const {
  return fmt::format("{} {} align_corners={} {} B{} M{} D{} Q{} P{} levels {}", msda_dialect_name(conventions.dialect),
                     msda_padding_name(conventions.padding), conventions.align_corners, msda_dtype_name(dtype), sizes.B,
                     sizes.M, sizes.D, sizes.Q, sizes.P, sizes.levels);
}

std::vector<Conventions> all_conventions() {
  std::vector<Conventions> all{{MSDA_DEFORMABLE_DETR, MSDA_PADDING_ZEROS, false}};
  for (const msda_dialect dialect : {MSDA_MSDA_TRITON, MSDA_GRID_SAMPLE}) {
    for (const msda_padding padding : {MSDA_PADDING_ZEROS, MSDA_PADDING_BORDER}) {
      for (const bool align : {false, true}) all.push_back({dialect, padding, align});
    }
  }
  return all;
}

Problem make_problem(const Sizes& sizes, const Conventions& conventions, msda_dtype dtype, uint64_t seed,
                     Locations locations) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::normal_distribution<double> normal;
  Problem problem;
  problem.sizes = sizes;
  problem.conventions = conventions;
  problem.dtype = dtype;
  const auto draw = [&](const std::vector<int64_t>& shape, auto&& next) {
    std::vector<double> values(static_cast<size_t>(kernels::elements_of(shape)));
    for (double& value : values) value = next();
    return OwnedTensor(values, dtype, shape);
  };
  const int64_t B = sizes.B, M = sizes.M, D = sizes.D, Q = sizes.Q, P = sizes.P, L = sizes.L();
  problem.value = draw({B, sizes.S(), M, D}, [&] { return normal(random); });
  problem.attention_weights = draw({B, Q, M, L, P}, [&] { return uniform(random); });
  problem.grad_output = draw({B, Q, M, D}, [&] { return normal(random); });
  std::vector<double> sides;
  for (const auto& [height, width] : sizes.levels) sides.insert(sides.end(), {double(height), double(width)});
  problem.spatial_shapes = OwnedTensor(sides, MSDA_INT64, {L, 2});

  int64_t drawn = 0;
  problem.sampling_locations = draw({B, Q, M, L, P, 2}, [&]() -> double {
    const auto& level = sizes.levels[static_cast<size_t>(drawn / (2 * P) % L)];
    const int32_t side = drawn++ % 2 == 0 ? level[1] : level[0];
    const double inside = uniform(random);
    if (locations == Locations::kInside) return inside;
    const auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); };
    switch (below(16)) {
      case 0:
        return 40 * inside - 20;  // outside
      case 1:
        return (static_cast<double>(below(side + 2)) - 0.5) / side;  // pixel centres
      case 2:
        return static_cast<double>(below(2));  // borders
      case 3:
        return std::ldexp(inside, -30);  // nearly 0
      case 4:
        return 1 + (inside - 0.5) / side;  // around the far border
      case 5:
        return (inside - 0.5) / side;  // around the near border
      case 6:
        return below(4) == 0 ? std::numeric_limits<double>::quiet_NaN() : inside;
      case 7:
        return below(8) == 0 ? -std::numeric_limits<double>::infinity() : inside;
      default:
        return inside;
    }
  });
  return problem;
}

Problem random_problem(uint64_t seed, msda_dtype dtype) {
  std::mt19937_64 random(seed * 7919 + 17);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  static constexpr int64_t kChannels[] = {1, 2, 3, 8, 30, 31, 32, 33, 64, 71, 100, 1025};
  Sizes sizes;
  sizes.B = pick(1, 2);
  sizes.M = pick(1, 3);
  sizes.D = kChannels[random() % std::size(kChannels)];
  sizes.Q = sizes.D > 500 ? pick(1, 4) : pick(1, 24);
  sizes.P = pick(1, 4);
  sizes.levels.clear();
  for (int64_t l = pick(1, 4); l > 0; --l) {
    sizes.levels.push_back({static_cast<int32_t>(pick(1, 9)), static_cast<int32_t>(pick(1, 9))});
    if (random() % 6 == 0) sizes.levels.back() = {1, 1};
  }
  const auto conventions = all_conventions();
  return make_problem(sizes, conventions[seed % conventions.size()], dtype, seed, Locations::kAnywhere);
}

analysis::Side Gradients::side(const std::string& name, std::shared_ptr<const analysis::Call> alternative) const {
  analysis::Side side;
  side.name = name;
  side.alternative = std::move(alternative);
  for (int i = 0; i < 3; ++i) {
    side.tensors[i] = tensors[i].view;
    side.arithmetic[i] = analysis::arithmetic_of(tensors[i].view.dtype);
  }
  return side;
}

Gradients run_backward(const Problem& problem, const msda_options& options) {
  return run_backward(problem, problem.conventions, options);
}

Gradients run_backward(const Problem& problem, const Conventions& conventions, const msda_options& options) {
  Gradients gradients;
  msda_tensor results[3];
  for (const Gradient gradient : analysis::MsdaGradient::kAll) {
    const size_t i = gradient.place();
    const msda_dtype dtype = options.mode == MSDA_MODE_FLOAT64 ? MSDA_FLOAT64 : problem.dtype;
    gradients.tensors[i] = OwnedTensor::for_result(dtype, problem.shape_of(gradient));
    results[i] = gradients.tensors[i].abi();
  }
  analysis::MsdaCall call = problem.call();
  call.conventions = conventions;
  const auto abi = analysis::abi_call(call);
  EXPECT_EQ(msda_backward(&abi.call, &abi.grad_output, &options, &results[0], &results[1], &results[2]), MSDA_OK)
      << msda_last_error() << " " << problem.text();
  return gradients;
}

OwnedTensor run_forward(const Problem& problem, const msda_options& options) {
  const msda_dtype dtype = options.mode == MSDA_MODE_FLOAT64 ? MSDA_FLOAT64 : problem.dtype;
  OwnedTensor output = OwnedTensor::for_result(dtype, problem.grad_output.view.shape);
  const msda_tensor result = output.abi();
  const auto abi = analysis::abi_call(problem.call());
  EXPECT_EQ(msda_forward(&abi.call, &options, &result), MSDA_OK) << msda_last_error() << " " << problem.text();
  return output;
}

std::string digest_of(const Gradients& gradients) {
  std::string digests;
  for (const OwnedTensor& tensor : gradients.tensors) digests += capture::digest(tensor.bytes()) + " ";
  return digests;
}

}  // namespace msda::tests
