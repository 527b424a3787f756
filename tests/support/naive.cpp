#include "tests/support/naive.h"

#include <cmath>

namespace msda::tests {

using analysis::Conventions;

namespace {

// A dialect's pixel coordinate in the arithmetic of Real, one rounding at a time.
template <class Real>
Real coordinate(const Conventions& c, Real location, int32_t side) {
  const Real size = static_cast<Real>(side);
  volatile Real x = location;
  switch (c.dialect) {
    case MSDA_DEFORMABLE_DETR:
      return std::fma(location, size, Real(-0.5));
    case MSDA_MSDA_TRITON:
      x = x * (c.align_corners ? size - 1 : size);
      if (!c.align_corners) x = x - Real(0.5);
      return x;
    default:
      x = x * 2;
      x = x - 1;
      x = x + 1;
      if (c.align_corners) {
        x = x / 2;
        x = x * (size - 1);
        return x;
      }
      x = x * size;
      x = x - 1;
      return x / 2;
  }
}

}  // namespace

NaiveAxis locate(const Conventions& c, double location, int32_t side, bool float_coordinates) {
  long double x = float_coordinates ? coordinate<float>(c, static_cast<float>(location), side)
                                    : coordinate<double>(c, location, side);
  long double slope = c.align_corners ? side - 1 : side;
  NaiveAxis axis{};
  const bool border = c.padding == MSDA_PADDING_BORDER;
  if (c.dialect == MSDA_GRID_SAMPLE) {
    if (border && (x <= 0 || x >= side - 1)) {
      x = x <= 0 ? 0 : side - 1;
      slope = 0;
    }
    axis.skipped = !std::isfinite(x);
  }
  if (c.dialect == MSDA_DEFORMABLE_DETR) axis.skipped = !(x > -1 && x < side);
  const long double low = std::floor(x);
  for (int upper = 0; upper < 2; ++upper) {
    axis.weight[upper] = upper ? x - low : 1 - (x - low);
    axis.slope[upper] = upper ? slope : -slope;
    const long double pixel = low + upper;
    if (border && c.dialect == MSDA_MSDA_TRITON) {
      axis.pixel[upper] = !(pixel >= 0) ? 0 : pixel > side - 1 ? side - 1 : static_cast<int64_t>(pixel);
    } else {
      axis.pixel[upper] = pixel >= 0 && pixel <= side - 1 ? static_cast<int64_t>(pixel) : -1;
    }
  }
  return axis;
}

namespace {

void accumulate(Sums& sums, size_t at, long double term) {
  sums.value[at] += term;
  sums.magnitude[at] += std::abs(term);
}

Sums zeros(size_t count) { return {std::vector<long double>(count, 0), std::vector<long double>(count, 0)}; }

}  // namespace

Naive naive(const Problem& problem, bool float_coordinates) {
  const Sizes& s = problem.sizes;
  const auto value = problem.value.values(), locations = problem.sampling_locations.values();
  const auto attention = problem.attention_weights.values(), grad_output = problem.grad_output.values();
  Naive result{zeros(grad_output.size()), {zeros(value.size()), zeros(locations.size()), zeros(attention.size())}};
  for (int64_t b = 0; b < s.B; ++b) {
    for (int64_t q = 0; q < s.Q; ++q) {
      for (int64_t m = 0; m < s.M; ++m) {
        int64_t start = 0;
        for (int64_t l = 0; l < s.L(); ++l) {
          const auto [height, width] = s.levels[static_cast<size_t>(l)];
          for (int64_t p = 0; p < s.P; ++p) {
            const auto at = static_cast<size_t>((((b * s.Q + q) * s.M + m) * s.L() + l) * s.P + p);
            const auto x = locate(problem.conventions, locations[2 * at], width, float_coordinates);
            const auto y = locate(problem.conventions, locations[2 * at + 1], height, float_coordinates);
            if (x.skipped || y.skipped) continue;
            for (int corner = 0; corner < 4; ++corner) {
              const int cx = corner % 2, cy = corner / 2;
              const bool inside = x.pixel[cx] >= 0 && y.pixel[cy] >= 0;
              const int64_t pixel = inside ? start + y.pixel[cy] * width + x.pixel[cx] : 0;
              for (int64_t d = 0; d < s.D; ++d) {
                const auto row = static_cast<size_t>(((b * s.Q + q) * s.M + m) * s.D + d);
                const auto source = static_cast<size_t>(((b * s.S() + pixel) * s.M + m) * s.D + d);
                const long double v = inside ? value[source] : 0, go = grad_output[row];
                const long double a = attention[at], wx = x.weight[cx], wy = y.weight[cy];
                accumulate(result.output, row, a * wx * wy * v);
                accumulate(result.gradients[2], at, go * wx * wy * v);
                accumulate(result.gradients[1], 2 * at, go * a * x.slope[cx] * wy * v);
                accumulate(result.gradients[1], 2 * at + 1, go * a * wx * y.slope[cy] * v);
                if (inside) accumulate(result.gradients[0], source, go * a * wx * wy);
              }
            }
          }
          start += int64_t{height} * width;
        }
      }
    }
  }
  return result;
}

}  // namespace msda::tests
