// The operator on the CPU: forward and backward, by mode, type, shape and number of threads.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/msda.h"

namespace {

struct Shape {
  const char* name;
  int64_t B, Q, M, P, D;
  std::vector<int64_t> levels;  // height, width, height, width, ...
};

// Returns the rows of docs/measured/benchmarks.md.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> kShapes{
      {"B4_Q1000_M8_L4_P3_D32", 4, 1000, 8, 3, 32, {64, 64, 32, 32, 16, 16, 8, 8}},
      {"B4_Q1000_M8_L4_P4_D32", 4, 1000, 8, 4, 32, {64, 64, 32, 32, 16, 16, 8, 8}},
      {"B4_Q10000_M8_L4_P4_D32", 4, 10000, 8, 4, 32, {64, 64, 32, 32, 16, 16, 8, 8}},
      {"B2_Q22223_M8_L4_P4_D32", 2, 22223, 8, 4, 32, {100, 167, 50, 84, 25, 42, 13, 21}},
  };
  return kShapes;
}

enum class Where { kUniform, kOnePixel };

template <class Real>
class Call {
 public:
  Call(const Shape& shape, Where where) : levels_(shape.levels) {
    const auto L = static_cast<int64_t>(levels_.size() / 2);
    for (size_t l = 0; l < levels_.size(); l += 2) pixels_ += levels_[l] * levels_[l + 1];
    const int64_t samples = shape.B * shape.Q * shape.M * L * shape.P;
    fill(value_, shape.B * pixels_ * shape.M * shape.D, -2, 2);
    fill(locations_, 2 * samples, where == Where::kUniform ? 0 : 0.5, where == Where::kUniform ? 1 : 0.5);
    fill(attention_, samples, 0, 1);
    fill(grad_output_, shape.B * shape.Q * shape.M * shape.D, 0, 1);
    grad_value_.resize(value_.size());
    grad_locations_.resize(locations_.size());
    grad_attention_.resize(attention_.size());
    output_.resize(grad_output_.size());

    call_.dialect = MSDA_MSDA_TRITON;
    call_.padding = MSDA_PADDING_BORDER;
    value_shape_ = {shape.B, pixels_, shape.M, shape.D};
    locations_shape_ = {shape.B, shape.Q, shape.M, L, shape.P, 2};
    output_shape_ = {shape.B, shape.Q, shape.M, shape.D};
    call_.value = tensor(value_, value_shape_);
    const int64_t shapes_shape[] = {L, 2};
    call_.spatial_shapes = msda_contiguous(levels_.data(), MSDA_INT64, 2, shapes_shape);
    call_.level_start_index = msda_contiguous(nullptr, MSDA_INT64, 0, nullptr);
    call_.sampling_locations = tensor(locations_, locations_shape_);
    call_.attention_weights = tensor(attention_, weights_shape());
  }

  void backward(benchmark::State& state, const msda_options& options) {
    const msda_tensor grad_output = tensor(grad_output_, output_shape_), grad_value = tensor(grad_value_, value_shape_),
                      grad_locations = tensor(grad_locations_, locations_shape_),
                      grad_attention = tensor(grad_attention_, weights_shape());
    for (auto _ : state) {
      check(state, msda_backward(&call_, &grad_output, &options, &grad_value, &grad_locations, &grad_attention));
      benchmark::ClobberMemory();
    }
  }

  void forward(benchmark::State& state, const msda_options& options) {
    const msda_tensor output = tensor(output_, output_shape_);
    for (auto _ : state) {
      check(state, msda_forward(&call_, &options, &output));
      benchmark::ClobberMemory();
    }
  }

 private:
  static constexpr msda_dtype kType = sizeof(Real) == 8 ? MSDA_FLOAT64 : MSDA_FLOAT32;

  void fill(std::vector<Real>& numbers, int64_t count, double low, double high) {
    std::uniform_real_distribution<double> uniform(low, high);
    numbers.resize(static_cast<size_t>(count));
    for (Real& number : numbers) number = static_cast<Real>(low == high ? low : uniform(random_));
  }
  static msda_tensor tensor(std::vector<Real>& numbers, const std::vector<int64_t>& shape) {
    return msda_contiguous(numbers.data(), kType, static_cast<int32_t>(shape.size()), shape.data());
  }
  std::vector<int64_t> weights_shape() const { return {locations_shape_.begin(), locations_shape_.end() - 1}; }
  static void check(benchmark::State& state, msda_status status) {
    if (status != MSDA_OK) state.SkipWithError(msda_last_error());
  }

  std::mt19937_64 random_{1};
  std::vector<int64_t> levels_, value_shape_, locations_shape_, output_shape_;
  int64_t pixels_ = 0;
  std::vector<Real> value_, locations_, attention_, grad_output_;
  std::vector<Real> grad_value_, grad_locations_, grad_attention_, output_;
  msda_call call_{};
};

// Real: the type of the tensors.
template <class Real>
void backward(benchmark::State& state, const Shape& shape, Where where, msda_mode mode) {
  const msda_options options{mode, static_cast<int32_t>(state.range(0)), 0, 0};
  Call<Real>(shape, where).backward(state, options);
}

void forward(benchmark::State& state, const Shape& shape) {
  const msda_options options{MSDA_MODE_DETERMINISTIC, static_cast<int32_t>(state.range(0)), 0, 0};
  Call<float>(shape, Where::kUniform).forward(state, options);
}

template <class Function>
void add(const std::string& name, Function function) {
  benchmark::RegisterBenchmark(name.c_str(), function)
      ->Arg(1)
      ->Arg(2)
      ->ArgName("threads")
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

const bool kRegistered = [] {
  for (const Shape& shape : shapes()) {
    const std::string name = shape.name;
    const auto timed = [&shape](auto run, auto... arguments) {
      return [&shape, run, arguments...](benchmark::State& state) { run(state, shape, arguments...); };
    };
    add("forward/float32/" + name, timed(forward));
    for (const msda_mode mode : {MSDA_MODE_DETERMINISTIC, MSDA_MODE_ATOMIC, MSDA_MODE_FLOAT64}) {
      add(std::string("backward/float32/") + msda_mode_name(mode) + "/" + name,
          timed(backward<float>, Where::kUniform, mode));
    }
    add("backward/float64/deterministic/" + name, timed(backward<double>, Where::kUniform, MSDA_MODE_DETERMINISTIC));
    add("backward/float32/deterministic/one_pixel/" + name,
        timed(backward<float>, Where::kOnePixel, MSDA_MODE_DETERMINISTIC));
  }
  return true;
}();

}  // namespace
