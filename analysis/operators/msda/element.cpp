#include "analysis/operators/msda/element.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "analysis/numbers/rounding.h"
#include "analysis/operators/msda/reduced_element.h"
#include "kernels/sample.h"

namespace msda::analysis {
CornerRows corner_rows(const Conventions& conventions, const LevelSize& level, int32_t low_x, int32_t low_y) {
  CornerRows rows;
  for (int corner = 0; corner < 4; ++corner) {
    const int32_t y = kernels::corner_pixel(conventions.dialect, conventions.padding, low_y, corner / 2, level.height);
    const int32_t x = kernels::corner_pixel(conventions.dialect, conventions.padding, low_x, corner % 2, level.width);
    rows[static_cast<size_t>(corner)] = y < 0 || x < 0 ? -1 : level.start + int64_t{y} * level.width + x;
  }
  return rows;
}

Element sample_element(const MsdaCall& call, const SampleId& sample, Gradient gradient, int axis, const Landing& x,
                       const Landing& y, const Precision& precision, const Narrowing* narrowing) {
  const auto rows = corner_rows(call.conventions, call.levels[static_cast<size_t>(sample.l)], x.low, y.low);
  return sample_element(call, sample, gradient, axis, x, y, rows, precision, narrowing);
}

Element sample_element(const MsdaCall& call, const SampleId& sample, Gradient gradient, int axis, const Landing& x,
                       const Landing& y, const CornerRows& rows, const Precision& precision,
                       const Narrowing* narrowing) {
  Element element;
  if (x.skipped || y.skipped) return element;
  if (narrowing != nullptr && narrowing->rounds(kInnerSteps)) {
    return reduced_sample_element(call, sample, gradient, axis, x, y, rows, precision, *narrowing);
  }
  const auto given = [&](Step step, double input) {
    return narrowing == nullptr ? input : narrowing->round(step, input);
  };
  const int64_t grad_output_row = sample.grad_output_row(call);
  const bool weights = gradient == MsdaGradient::kAttentionWeights;
  const double slope = axis == 0 ? x.slope : y.slope, attention = given(kAttentionWeights, sample.attention(call));
  const double scale = weights ? 1 : attention * slope;
  const double growth_of_scale = weights ? 1 : at_least_1(attention) * at_least_1(slope);
  // Derivatives of the element by the two fractions, and by both.
  double by_x = 0, by_y = 0, by_both = 0;
  const double fx = x.fraction, fy = y.fraction;
  // The factor of each corner's value; corners: (y0,x0) (y0,x1) (y1,x0) (y1,x1).
  const std::array<double, 4> weight = weights ? std::array{(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx}
                                       : axis == 0 ? std::array{fy - 1, 1 - fy, -fy, fy}
                                                   : std::array{fx - 1, -fx, 1 - fx, fx};
  SumBound sum;
  for (int64_t d = 0; d < call.D; ++d) {
    std::array<double, 4> v{};
    const double grad_output = given(kGradOutput, call.grad_output.at(grad_output_row + d));
    const double factor = grad_output * scale;
    const double growth = growth_of_scale * at_least_1(grad_output);
    double part = 0;
    for (size_t corner = 0; corner < 4; ++corner) {
      if (rows[corner] >= 0) {
        v[corner] = given(kValue, call.value.at(value_element(call, sample.b, rows[corner], sample.m, d)));
      }
      const double term = factor * weight[corner] * v[corner];
      sum.add(term, static_cast<int>(corner), growth * at_least_1(v[corner]));
      part += term;
    }
    element.cancelled += std::abs(part);
    const double twist = factor * ((v[3] - v[2]) - (v[1] - v[0]));
    if (weights) {
      by_x += factor * ((1 - fy) * (v[1] - v[0]) + fy * (v[3] - v[2]));
      by_y += factor * ((1 - fx) * (v[2] - v[0]) + fx * (v[3] - v[1]));
      by_both += twist;
    } else {
      (axis == 0 ? by_y : by_x) += twist;
    }
  }
  element.take_sum(sum, precision);
  element.from_coordinates =
      std::abs(by_x) * x.error + std::abs(by_y) * y.error + std::abs(by_both) * x.error * y.error;
  return element;
}

void Contributions::ByPixel::sort(const std::vector<Found>& found, const LevelSize& level) {
  const auto pixels = static_cast<size_t>(int64_t{level.height} * level.width);
  start_ = level.start;
  begin_.assign(pixels + 1, 0);
  for (const Found& addend : found) ++begin_[static_cast<size_t>(addend.s - start_) + 1];
  for (size_t i = 0; i < pixels; ++i) begin_[i + 1] += begin_[i];
  std::vector<int64_t> next(begin_.begin(), begin_.end() - 1);
  addends_.resize(found.size());
  for (const Found& addend : found) {
    addends_[static_cast<size_t>(next[static_cast<size_t>(addend.s - start_)]++)] = addend.addend;
  }
}

std::span<const Contributions::Addend> Contributions::ByPixel::of(int64_t s) const {
  const int64_t pixel = s - start_;
  if (pixel < 0 || pixel + 1 >= static_cast<int64_t>(begin_.size())) return {};
  const auto begin = addends_.begin() + begin_[static_cast<size_t>(pixel)];
  return {begin, addends_.begin() + begin_[static_cast<size_t>(pixel) + 1]};
}

Contributions::Contributions(const MsdaCall& call, const Conventions& conventions, int64_t b, int64_t m, int64_t l,
                             const Precision& precision, const Narrowing* narrowing)
    : call_(&call), conventions_(conventions), b_(b), m_(m), l_(l) {
  constexpr int64_t kMostQueries = int64_t{1} << 31, kMostPoints = int64_t{1} << 28;
  if (call.Q > kMostQueries || call.P > kMostPoints) throw std::length_error("too many queries or points to examine");
  find_exact(precision, narrowing);
}

namespace {

Contributions::Addend named(const SampleId& sample, int32_t corner, double weight, double error) {
  return {static_cast<int32_t>(sample.q), static_cast<int32_t>(4 * sample.p + corner), weight, error};
}

}  // namespace

void Contributions::find_exact(const Precision& precision, const Narrowing* narrowing) {
  const MsdaCall& call = *call_;
  const LevelSize& level = this->level();
  std::vector<Found> found;
  found.reserve(static_cast<size_t>(4 * call.Q * call.P));
  for (int64_t q = 0; q < call.Q; ++q) {
    for (int64_t p = 0; p < call.P; ++p) {
      const SampleId sample{b_, q, m_, l_, p};
      const auto at = [&](int axis) {
        const double location = sample.location(call, axis);
        return narrowing == nullptr ? location : narrowing->round(kLocations, location);
      };
      const auto xs = landings(conventions_, at(0), level.width, precision);
      const auto ys = landings(conventions_, at(1), level.height, precision);
      const size_t first = found.size();
      for (const Landing& x : xs) {
        for (const Landing& y : ys) {
          if (x.skipped || y.skipped) continue;
          const bool is_exact = &x == &xs[0] && &y == &ys[0];
          const auto rows = corner_rows(conventions_, level, x.low, y.low);
          for (int32_t corner = 0; corner < 4; ++corner) {
            const int64_t s = rows[static_cast<size_t>(corner)];
            const auto listed = [&] {
              return std::any_of(found.begin() + static_cast<int64_t>(first), found.end(),
                                 [&](const Found& addend) { return addend.s == s; });
            };
            if (s < 0 || (!is_exact && listed())) continue;
            const double wx = corner % 2 == 0 ? 1 - x.fraction : x.fraction;
            const double wy = corner / 2 == 0 ? 1 - y.fraction : y.fraction;
            const double error = std::abs(wx) * y.error + std::abs(wy) * x.error + x.error * y.error;
            found.push_back({s, named(sample, corner, is_exact ? wx * wy : 0, error)});
          }
        }
      }
    }
  }
  exact_.sort(found, level);
}

void Contributions::find_computed() const {
  const MsdaCall& call = *call_;
  const LevelSize& level = this->level();
  std::vector<Found> found;
  found.reserve(static_cast<size_t>(4 * call.Q * call.P));
  const auto add = [&]<class Real>(Real, const SampleId& sample) {
    const auto locate = [&](int axis) {
      return kernels::locate(conventions_.dialect, conventions_.padding, conventions_.align_corners,
                             static_cast<Real>(sample.location(call, axis)), side_of(level, axis));
    };
    const auto x = locate(0), y = locate(1);
    if (!x.sampled || !y.sampled) return;
    const auto weights = kernels::corner_weights(y.fraction, x.fraction);
    const auto rows = corner_rows(conventions_, level, x.low, y.low);
    for (int32_t corner = 0; corner < 4; ++corner) {
      const int64_t s = rows[static_cast<size_t>(corner)];
      if (s < 0) continue;
      found.push_back({s, named(sample, corner, double(weights.w[corner]), 0)});
    }
  };
  for (int64_t q = 0; q < call.Q; ++q) {
    for (int64_t p = 0; p < call.P; ++p) {
      if (call.arithmetic() == MSDA_FLOAT64) {
        add(double{}, {b_, q, m_, l_, p});
      } else {
        add(float{}, {b_, q, m_, l_, p});
      }
    }
  }
  computed_.sort(found, level);
}

std::span<const Contributions::Addend> Contributions::exact(int64_t s) const { return exact_.of(s); }

std::span<const Contributions::Addend> Contributions::computed(int64_t s) const {
  std::call_once(computed_found_, [this] { find_computed(); });
  return computed_.of(s);
}

std::shared_ptr<ContributionCache::Slot> ContributionCache::slot(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(slots_, key, &std::pair<Key, std::shared_ptr<Slot>>::first);
  if (found != slots_.end()) {
    std::rotate(found, found + 1, slots_.end());
    return slots_.back().second;
  }
  // Enough for every level of a few heads under two dialects and float64, and for all there are of a small call.
  constexpr int64_t kMostSamples = 150'000, kFewestSlots = 8, kMostSlots = 256;
  const int64_t samples = std::max<int64_t>(1, call_->Q * call_->P);
  const auto most = static_cast<size_t>(std::clamp<int64_t>(kMostSamples / samples, kFewestSlots, kMostSlots));
  if (slots_.size() >= most) slots_.erase(slots_.begin());
  return slots_.emplace_back(key, std::make_shared<Slot>()).second;
}

std::shared_ptr<const Contributions> ContributionCache::get(const Conventions& conventions, int64_t b, int64_t m,
                                                            int64_t l, const Precision& precision,
                                                            const Narrowing* narrowing) {
  const bool rounds_locations = narrowing != nullptr && narrowing->rounds(kLocations);
  const int64_t narrow = rounds_locations ? static_cast<int64_t>(narrowing->narrow) : -1;
  const auto slot = this->slot(
      {conventions.dialect, conventions.padding, conventions.align_corners, precision.bits, narrow, b, m, l});
  std::call_once(slot->found, [&] {
    slot->contributions = std::make_shared<const Contributions>(*call_, conventions, b, m, l, precision, narrowing);
  });
  return slot->contributions;
}

namespace {

// Indices of grad_output and of attention_weights for an addend.
std::pair<int64_t, int64_t> sources(const MsdaCall& call, const PixelId& pixel, const Contributions::Addend& addend) {
  const SampleId sample{pixel.b, addend.q, pixel.m, pixel.l, addend.p()};
  return {sample.grad_output_row(call) + pixel.d, sample.flat(call)};
}

}  // namespace

Element pixel_element(const MsdaCall& call, const PixelId& pixel, std::span<const Contributions::Addend> exact,
                      const Precision& precision, const Narrowing* narrowing) {
  Element element;
  SumBound sum;
  for (const auto& addend : exact) {
    const auto [grad_output, weight] = sources(call, pixel, addend);
    const double go = call.grad_output.at(grad_output), attention = call.attention_weights.at(weight);
    const double factor = go * attention;
    // Rounding may land this sample elsewhere, so that nothing of it comes here: its NaN is no bound.
    if (std::abs(addend.weight) <= addend.weight_error && !std::isfinite(factor)) {
      element.may_be_nan = true;
      if (std::isinf(factor)) element.partials.add(factor, INFINITY);
      continue;
    }
    Uncertain term{addend.weight * factor, addend.weight_error * std::abs(factor)};
    if (narrowing != nullptr) {
      term = reduced_addend(*narrowing, {addend.weight, addend.weight_error}, go, attention,
                            Precision::of(call.arithmetic()).unit);
    }
    sum.add(term.value, 0, at_least_1(go) * at_least_1(attention));
    element.from_coordinates += term.error;
  }
  element.take_sum(sum, precision);
  element.cancelled = sum.magnitude();
  return element;
}

std::vector<double> computed_addends(const MsdaCall& call, const PixelId& pixel,
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
