#include "tests/support/reduced.h"

#include <bit>
#include <cmath>
#include <vector>

#include "tests/support/naive.h"

namespace msda::tests {
namespace {

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

// Keeps all but the last bits, after adding what carries.
float cut(float x, int last, uint32_t carry) {
  return std::bit_cast<float>((bits_of(x) + carry) & ~((uint32_t{1} << last) - 1));
}
uint32_t to_even(float x, int last) { return (uint32_t{1} << (last - 1)) - 1 + ((bits_of(x) >> last) & 1); }

}  // namespace

float tf32_even(float x) { return cut(x, 13, to_even(x, 13)); }
float tf32_away(float x) { return cut(x, 13, 0x1000); }
float tf32_truncated(float x) { return cut(x, 13, 0); }
float bfloat16(float x) { return cut(x, 16, to_even(x, 16)); }
float bfloat16_truncated(float x) { return cut(x, 16, 0); }
float float16(float x) {
  if (std::abs(x) >= 0x1p-14f) {
    const float rounded = tf32_even(x);
    return std::abs(rounded) > 65504 ? std::copysign(INFINITY, x) : rounded;
  }
  return std::nearbyint(x * 0x1p24f) * 0x1p-24f;
}
float float32(float x) { return x; }

namespace {

template <class Real>
class Reduced {
 public:
  Reduced(const Problem& problem, const analysis::Conventions& conventions, float (*round)(float),
          const StepNames& steps)
      : problem_(problem), s_(problem.sizes), conventions_(conventions), round_(round), steps_(steps) {
    value_ = rounded("value", problem.value);
    attention_ = rounded("attention_weights", problem.attention_weights);
    grad_output_ = rounded("grad_output", problem.grad_output);
    locations_ = rounded("sampling_locations", problem.sampling_locations);
    sums_[0].resize(value_.size());
    sums_[1].resize(locations_.size());
    sums_[2].resize(attention_.size());
  }

  Gradients run() {
    for (int64_t b = 0; b < s_.B; ++b) {
      for (int64_t q = 0; q < s_.Q; ++q) {
        for (int64_t m = 0; m < s_.M; ++m) add_head(b, q, m);
      }
    }
    Gradients gradients;
    for (const auto gradient : analysis::MsdaGradient::kAll) {
      const auto at = gradient.place();
      std::vector<double> results;
      for (const Real sum : sums_[at]) results.push_back(static_cast<double>(step("result", sum)));
      gradients.tensors[at] = OwnedTensor(results, problem_.dtype, problem_.shape_of(gradient));
    }
    return gradients;
  }

 private:
  Real step(const char* name, Real x) const {
    return steps_.contains(name) ? static_cast<Real>(round_(static_cast<float>(x))) : x;
  }
  std::vector<Real> rounded(const char* name, const OwnedTensor& tensor) const {
    std::vector<Real> numbers;
    for (const double x : tensor.values()) numbers.push_back(step(name, static_cast<Real>(x)));
    return numbers;
  }
  void add(Real& sum, Real addend) const {
    addend = step("addends", addend);
    sum = step("sums", sum + step("sums", addend));
  }

  void add_head(int64_t b, int64_t q, int64_t m) {
    int64_t start = 0;
    for (int64_t l = 0; l < s_.L(); ++l) {
      const auto [height, width] = s_.levels[static_cast<size_t>(l)];
      for (int64_t p = 0; p < s_.P; ++p) {
        const auto at = static_cast<size_t>((((b * s_.Q + q) * s_.M + m) * s_.L() + l) * s_.P + p);
        const bool narrow = sizeof(Real) == sizeof(float) || steps_.contains("sums");
        const NaiveAxis x = locate(conventions_, static_cast<double>(locations_[2 * at]), width, narrow);
        const NaiveAxis y = locate(conventions_, static_cast<double>(locations_[2 * at + 1]), height, narrow);
        if (x.skipped || y.skipped) continue;
        int64_t rows[4];
        for (int corner = 0; corner < 4; ++corner) {
          const int64_t px = x.pixel[corner % 2], py = y.pixel[corner / 2];
          rows[corner] = px < 0 || py < 0 ? -1 : ((b * s_.S() + start + py * width + px) * s_.M + m) * s_.D;
        }
        add_sample(at, ((b * s_.Q + q) * s_.M + m) * s_.D, rows, x, y);
      }
      start += int64_t{height} * width;
    }
  }

  void add_sample(size_t at, int64_t grad_output_row, const int64_t (&rows)[4], const NaiveAxis& x,
                  const NaiveAxis& y) {
    const Real wx[2] = {static_cast<Real>(x.weight[0]), static_cast<Real>(x.weight[1])};
    const Real wy[2] = {static_cast<Real>(y.weight[0]), static_cast<Real>(y.weight[1])};
    const Real sx = static_cast<Real>(x.slope[1]), sy = static_cast<Real>(y.slope[1]);
    const bool weighs = steps_.contains("grad_output*attention_weights");
    Real w[4], by_x[2], by_y[2], sum_x = 0, sum_y = 0;
    for (int corner = 0; corner < 4; ++corner) {
      w[corner] = step("interpolation_weights", wy[corner / 2] * wx[corner % 2]);
    }
    for (int i = 0; i < 2; ++i) {
      by_x[i] = step("interpolation_weights", wy[i]);
      by_y[i] = step("interpolation_weights", wx[i]);
    }
    for (int64_t d = 0; d < s_.D; ++d) {
      Real v[4];
      for (int corner = 0; corner < 4; ++corner) {
        v[corner] = rows[corner] < 0 ? Real(0) : value_[static_cast<size_t>(rows[corner] + d)];
      }
      const Real go = grad_output_[static_cast<size_t>(grad_output_row + d)];
      const Real weighted = step("grad_output*attention_weights", go * attention_[at]);
      const Real sampled = step("sampled_value", w[0] * v[0] + w[1] * v[1] + w[2] * v[2] + w[3] * v[3]);
      add(sums_[2][at], go * sampled);
      const Real slope_x = step("sampled_value", by_x[0] * (v[1] - v[0]) + by_x[1] * (v[3] - v[2]));
      const Real slope_y = step("sampled_value", by_y[0] * (v[2] - v[0]) + by_y[1] * (v[3] - v[1]));
      add(sum_x, (weighs ? weighted : go) * slope_x);
      add(sum_y, (weighs ? weighted : go) * slope_y);
      for (int corner = 0; corner < 4; ++corner) {
        if (rows[corner] >= 0) add(sums_[0][static_cast<size_t>(rows[corner] + d)], w[corner] * weighted);
      }
    }
    const Real attention = weighs ? Real(1) : attention_[at];
    sums_[1][2 * at] = sum_x * attention * sx;
    sums_[1][2 * at + 1] = sum_y * attention * sy;
  }

  const Problem& problem_;
  const Sizes& s_;
  const analysis::Conventions& conventions_;
  float (*round_)(float);
  const StepNames& steps_;
  std::vector<Real> value_, attention_, grad_output_, locations_, sums_[3];
};

}  // namespace

Gradients reduced(const Problem& problem, const analysis::Conventions& conventions, float (*round)(float),
                  const StepNames& steps) {
  if (problem.dtype == MSDA_FLOAT64) return Reduced<double>(problem, conventions, round, steps).run();
  return Reduced<float>(problem, conventions, round, steps).run();
}

}  // namespace msda::tests
