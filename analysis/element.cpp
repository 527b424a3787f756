#include "analysis/element.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "kernels/sample.h"

namespace msda::analysis {
namespace {

// What the errors of the terms and of the sum can add, and at last the rounding into the tensor's own type.
void bound_rounding(Element& element, const Precision& precision) {
  const double growth = kTermRoundings + sum_growth(element.terms);
  element.from_rounding = growth * precision.unit * element.magnitude / (1 - growth * precision.unit) +
                          static_cast<double>(element.terms) * precision.tiny;
  if (growth * precision.unit >= 1) element.from_rounding = INFINITY;
}

}  // namespace

CornerRows corner_rows(const Conventions& conventions, const LevelSize& level, int32_t low_x, int32_t low_y) {
  CornerRows rows;
  for (int corner = 0; corner < 4; ++corner) {
    const int32_t y = kernels::corner_pixel(conventions.dialect, conventions.padding, low_y, corner / 2, level.height);
    const int32_t x = kernels::corner_pixel(conventions.dialect, conventions.padding, low_x, corner % 2, level.width);
    rows[static_cast<size_t>(corner)] = y < 0 || x < 0 ? -1 : level.start + int64_t{y} * level.width + x;
  }
  return rows;
}

double sum_growth(int64_t terms) {
  const auto n = static_cast<double>(std::max<int64_t>(terms, 1));
  return std::min(n - 1, kSigmas * std::sqrt(n));
}

Element sample_element(const Call& call, const Conventions& conventions, const SampleId& sample, Gradient gradient,
                       int axis, const Landing& x, const Landing& y, const Precision& precision) {
  const auto rows = corner_rows(conventions, call.levels[static_cast<size_t>(sample.l)], x.low, y.low);
  return sample_element(call, sample, gradient, axis, x, y, rows, precision);
}

Element sample_element(const Call& call, const SampleId& sample, Gradient gradient, int axis, const Landing& x,
                       const Landing& y, const CornerRows& rows, const Precision& precision) {
  Element element;
  if (x.skipped || y.skipped) return element;
  const int64_t grad_output_row = sample.grad_output_row(call);
  const bool weights = gradient == Gradient::kAttentionWeights;
  const double scale = weights ? 1 : sample.attention(call) * (axis == 0 ? x.slope : y.slope);
  // Derivatives of the element by the two fractions, and by both.
  double by_x = 0, by_y = 0, by_both = 0;
  for (int64_t d = 0; d < call.D; ++d) {
    std::array<double, 4> v{};
    for (size_t corner = 0; corner < 4; ++corner) {
      if (rows[corner] >= 0) v[corner] = call.value.at(value_element(call, sample.b, rows[corner], sample.m, d));
    }
    const double factor = call.grad_output.at(grad_output_row + d) * scale;
    const double fx = x.fraction, fy = y.fraction;
    // v: (y0,x0) (y0,x1) (y1,x0) (y1,x1)
    const double twist = factor * ((v[3] - v[2]) - (v[1] - v[0]));
    double part, magnitude;
    if (weights) {
      part = factor * ((1 - fy) * ((1 - fx) * v[0] + fx * v[1]) + fy * ((1 - fx) * v[2] + fx * v[3]));
      magnitude = std::abs(1 - fy) * (std::abs((1 - fx) * v[0]) + std::abs(fx * v[1])) +
                  std::abs(fy) * (std::abs((1 - fx) * v[2]) + std::abs(fx * v[3]));
      by_x += factor * ((1 - fy) * (v[1] - v[0]) + fy * (v[3] - v[2]));
      by_y += factor * ((1 - fx) * (v[2] - v[0]) + fx * (v[3] - v[1]));
      by_both += twist;
    } else if (axis == 0) {
      part = factor * ((1 - fy) * (v[1] - v[0]) + fy * (v[3] - v[2]));
      magnitude =
          std::abs(1 - fy) * (std::abs(v[1]) + std::abs(v[0])) + std::abs(fy) * (std::abs(v[3]) + std::abs(v[2]));
      by_y += twist;
    } else {
      part = factor * ((1 - fx) * (v[2] - v[0]) + fx * (v[3] - v[1]));
      magnitude =
          std::abs(1 - fx) * (std::abs(v[2]) + std::abs(v[0])) + std::abs(fx) * (std::abs(v[3]) + std::abs(v[1]));
      by_x += twist;
    }
    element.value += part;
    element.cancelled += std::abs(part);
    element.magnitude += std::abs(factor) * magnitude;
  }
  element.terms = 4 * call.D;
  element.from_coordinates =
      std::abs(by_x) * x.error + std::abs(by_y) * y.error + std::abs(by_both) * x.error * y.error;
  bound_rounding(element, precision);
  return element;
}

Contributions::Contributions(const Call& call, const Conventions& conventions, int64_t b, int64_t m, int64_t l,
                             const Precision& precision) {
  const LevelSize& level = call.levels[static_cast<size_t>(l)];
  const auto add_computed = [&]<class Real>(Real, const SampleId& sample) {
    const auto at = [&](int axis) {
      return kernels::locate(conventions.dialect, conventions.padding, conventions.align_corners,
                             static_cast<Real>(sample.location(call, axis)), side_of(level, axis));
    };
    const auto x = at(0), y = at(1);
    if (!x.sampled || !y.sampled) return;
    const auto weights = kernels::corner_weights(y.fraction, x.fraction);
    const auto rows = corner_rows(conventions, level, x.low, y.low);
    for (int corner = 0; corner < 4; ++corner) {
      const int64_t s = rows[static_cast<size_t>(corner)];
      if (s >= 0) computed_.push_back({s, sample.q, sample.p, corner, double(weights.w[corner]), 0});
    }
  };
  for (int64_t q = 0; q < call.Q; ++q) {
    for (int64_t p = 0; p < call.P; ++p) {
      const SampleId sample{b, q, m, l, p};
      if (call.arithmetic() == MSDA_FLOAT64) {
        add_computed(double{}, sample);
      } else {
        add_computed(float{}, sample);
      }
      const auto xs = landings(conventions, sample.location(call, 0), level.width, precision);
      const auto ys = landings(conventions, sample.location(call, 1), level.height, precision);
      const size_t first = exact_.size();
      for (const Landing& x : xs) {
        for (const Landing& y : ys) {
          if (x.skipped || y.skipped) continue;
          const bool is_exact = &x == &xs[0] && &y == &ys[0];
          const auto rows = corner_rows(conventions, level, x.low, y.low);
          for (int corner = 0; corner < 4; ++corner) {
            const int64_t s = rows[static_cast<size_t>(corner)];
            const bool listed = std::any_of(exact_.begin() + static_cast<int64_t>(first), exact_.end(),
                                            [&](const Addend& addend) { return addend.s == s; });
            if (s < 0 || (!is_exact && listed)) continue;
            const double wx = corner % 2 == 0 ? 1 - x.fraction : x.fraction;
            const double wy = corner / 2 == 0 ? 1 - y.fraction : y.fraction;
            exact_.push_back({s, q, p, corner, is_exact ? wx * wy : 0,
                              std::abs(wx) * y.error + std::abs(wy) * x.error + x.error * y.error});
          }
        }
      }
    }
  }
  const auto order = [](const Addend& a, const Addend& c) {
    return std::tie(a.s, a.q, a.p, a.corner) < std::tie(c.s, c.q, c.p, c.corner);
  };
  std::ranges::sort(exact_, order);
  std::ranges::sort(computed_, order);
}

std::span<const Contributions::Addend> Contributions::of_pixel(const std::vector<Addend>& addends, int64_t s) {
  const auto range = std::ranges::equal_range(addends, s, {}, &Addend::s);
  return {range.begin(), range.end()};
}

const Contributions& ContributionCache::get(const Conventions& conventions, int64_t b, int64_t m, int64_t l,
                                            const Precision& precision) {
  const std::vector<int64_t> key{
      conventions.dialect, conventions.padding, conventions.align_corners, precision.bits, b, m, l};
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  if (found != entries_.end()) return *found->contributions;
  constexpr size_t kMost = 16;
  if (entries_.size() >= kMost) entries_.erase(entries_.begin());
  entries_.push_back({key, std::make_unique<Contributions>(*call_, conventions, b, m, l, precision)});
  return *entries_.back().contributions;
}

PixelId pixel_of(const Call& call, int64_t flat) {
  PixelId pixel{};
  pixel.d = flat % call.D;
  flat /= call.D;
  pixel.m = flat % call.M;
  flat /= call.M;
  pixel.s = flat % call.S;
  pixel.b = flat / call.S;
  while (pixel.l + 1 < call.L && call.levels[static_cast<size_t>(pixel.l + 1)].start <= pixel.s) ++pixel.l;
  return pixel;
}

namespace {

// Indices of grad_output and of attention_weights for an addend.
std::pair<int64_t, int64_t> sources(const Call& call, const PixelId& pixel, const Contributions::Addend& addend) {
  const SampleId sample{pixel.b, addend.q, pixel.m, pixel.l, addend.p};
  return {sample.grad_output_row(call) + pixel.d, sample.flat(call)};
}

}  // namespace

Element pixel_element(const Call& call, const PixelId& pixel, std::span<const Contributions::Addend> exact,
                      const Precision& precision) {
  Element element;
  for (const auto& addend : exact) {
    const auto [grad_output, weight] = sources(call, pixel, addend);
    const double factor = call.grad_output.at(grad_output) * call.attention_weights.at(weight);
    element.value += addend.weight * factor;
    element.magnitude += std::abs(addend.weight * factor);
    element.from_coordinates += addend.weight_error * std::abs(factor);
  }
  element.cancelled = element.magnitude;
  element.terms = static_cast<int64_t>(exact.size());
  bound_rounding(element, precision);
  return element;
}

std::vector<double> computed_addends(const Call& call, const PixelId& pixel,
                                     std::span<const Contributions::Addend> computed) {
  std::vector<double> addends;
  for (const auto& addend : computed) {
    const auto [grad_output, weight] = sources(call, pixel, addend);
    const double go = call.grad_output.at(grad_output), attention = call.attention_weights.at(weight);
    if (call.arithmetic() == MSDA_FLOAT64) {
      addends.push_back(kernels::value_contribution(addend.weight, go * attention));
    } else {
      const float weighted = static_cast<float>(go) * static_cast<float>(attention);
      addends.push_back(kernels::value_contribution(static_cast<float>(addend.weight), weighted));
    }
  }
  return addends;
}

}  // namespace msda::analysis
