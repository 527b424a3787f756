#include "analysis/judge/gradcheck.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <numeric>
#include <random>

#include "analysis/judge/detect_arithmetic.h"
#include "analysis/model/explain.h"
#include "analysis/model/forward.h"
#include "kernels/parallel.h"

namespace msda::analysis {
namespace {

constexpr double kFloat64Unit = 0x1p-53;

// The derivative at `x` of the polynomial through four points of the forward pass.
struct Slope {
  long double value = 0;
  double error = 0;
};

Slope slope_through(const Call& call, const ElementId& id, double x, const std::array<double, 4>& nodes) {
  Slope slope;
  for (size_t i = 0; i < nodes.size(); ++i) {
    // Lagrange's weight of node i in the derivative.
    long double weight = 0;
    for (size_t left_out = 0; left_out < nodes.size(); ++left_out) {
      if (left_out == i) continue;
      long double product = 1.0L / (nodes[i] - static_cast<long double>(nodes[left_out]));
      for (size_t j = 0; j < nodes.size(); ++j) {
        if (j != i && j != left_out) {
          product *= (x - static_cast<long double>(nodes[j])) / (nodes[i] - static_cast<long double>(nodes[j]));
        }
      }
      weight += product;
    }
    const Loss loss = call.forward()->loss_at(id, nodes[i]);
    slope.value += weight * loss.value;
    // Weights of pixels have a few roundings, and cubic ones intermediate results up to 9.
    slope.error += static_cast<double>(std::abs(weight) * loss.magnitude) * 64 * kFloat64Unit;
  }
  return slope;
}

// Returns the number that the derivative is taken at: where the operator's backward does not read it, any is as good.
double input_at(const Call& call, const ElementId& id) {
  const Tensor input = call.input_of(id.gradient);
  return input ? input.at(id.flat) : 0;
}

// Returns the derivative with respect to an input in which the operator is linear: all but coordinates.
std::optional<Derivatives> linear_derivative(const Call& call, const ElementId& id) {
  const double x = input_at(call, id), step = std::max(1.0, std::abs(x));
  const Loss above = call.forward()->loss_at(id, x + step), below = call.forward()->loss_at(id, x - step);
  const auto slope = static_cast<double>((above.value - below.value) / (2 * static_cast<long double>(step)));
  if (!std::isfinite(slope)) return std::nullopt;
  Derivatives found{slope, slope, slope, slope, 0, false};
  found.error = static_cast<double>((above.magnitude + below.magnitude) / step) * 64 * kFloat64Unit;
  return found;
}

}  // namespace

std::optional<Derivatives> derivatives_of(const Call& call, const ElementId& id, const Precision& precision) {
  const auto moved = call.forward()->moved_axis(id);
  if (!moved) return linear_derivative(call, id);
  constexpr double kMostPieces = 16, kFarthest = 1e6;  // beyond that, a pixel has too few bits
  const Axis axis = call.axes(id)[*moved];
  const CoordinateMap map = call.coordinate_map(axis);
  const auto [exact, error] = call.coordinate(axis, precision);
  if (!(std::abs(exact) < kFarthest) || !std::isfinite(axis.location)) return std::nullopt;
  if (map.factor == 0) return Derivatives{};  // one pixel wide: nothing moves
  // The error of float64 itself is there for every side.
  const double reach = std::max(error, call.coordinate(axis, Precision::of(MSDA_FLOAT64)).error);
  const double first = std::ceil(2 * (exact - reach)) - 1, last = std::floor(2 * (exact + reach));
  if (last - first > kMostPieces) return std::nullopt;
  Derivatives found;
  found.lowest = INFINITY;
  found.highest = -INFINITY;
  for (double piece = first; piece <= last; ++piece) {
    std::array<double, 4> nodes;
    constexpr std::array<double, 4> kParts{0.05, 0.35, 0.65, 0.95};
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i] = map.location((piece + kParts[i]) / 2);
    const Slope slope = slope_through(call, id, axis.location, nodes);
    const auto value = static_cast<double>(slope.value);
    if (!std::isfinite(value)) return std::nullopt;
    if (found.lowest == INFINITY) found.below = value;
    found.above = value;
    found.lowest = std::min(found.lowest, value);
    found.highest = std::max(found.highest, value);
    // Coordinates of nodes are rounded, too: relative to a step, this much.
    const double rounding = (std::abs(exact) + axis.size) * 64 * kFloat64Unit;
    found.error = std::max(found.error, slope.error + rounding * (std::abs(value) + slope.error / kFloat64Unit / 64));
  }
  found.kink = last > first;
  return found;
}

double naive_derivative(const Call& call, const ElementId& id) {
  const double x = input_at(call, id);
  const Loss above = call.forward()->loss_at(id, x + kNaiveStep), below = call.forward()->loss_at(id, x - kNaiveStep);
  return (static_cast<double>(above.value) - static_cast<double>(below.value)) / (2 * kNaiveStep);
}

std::optional<CheckedValue> check_value(const Call& call, const Side& side, const ElementId& id,
                                        const Derivatives& derivatives, Cache& cache) {
  const double value = side.of(id.gradient).at(id.flat);
  const Explanation explanation = explain(call, side, id, value, cache);
  CheckedValue checked{value, derivatives.error, 0, false};
  double bound = 0;
  for (const Match& match : explanation.candidates) bound = std::max(bound, match.bound);
  if (!std::isfinite(bound)) return std::nullopt;
  checked.bound += bound;
  checked.distance = std::max({0.0, derivatives.lowest - value, value - derivatives.highest});
  checked.passes = std::isfinite(value) && checked.distance <= checked.bound;
  if (!std::isfinite(value)) checked.distance = INFINITY;
  return checked;
}

namespace {

// Returns how far the coordinate of an element is from a kink, in pixels.
double distance_to_kink(const Call& call, const ElementId& id, size_t moved) {
  const double exact = call.coordinate(call.axes(id)[moved], Precision::of(MSDA_FLOAT64)).exact;
  const double distance = std::abs(2 * exact - std::nearbyint(2 * exact)) / 2;
  return std::isfinite(distance) ? distance : INFINITY;
}

// Returns whether the naive difference reaches over a kink.
bool steps_over_kink(const Call& call, const ElementId& id) {
  const auto moved = call.forward()->moved_axis(id);
  if (!moved) return false;
  const double factor = call.coordinate_map(call.axes(id)[*moved]).factor;
  return distance_to_kink(call, id, *moved) <= kNaiveStep * std::abs(factor);
}

// Ascending; some at random, and of the coordinates those nearest to kinks.
std::vector<int64_t> choose(const Call& call, Gradient gradient, const GradcheckSettings& settings) {
  const int64_t total = kernels::elements_of(call.shape_of(gradient));
  std::vector<int64_t> all(static_cast<size_t>(total));
  std::iota(all.begin(), all.end(), int64_t{0});
  if (settings.all || total <= settings.samples) return all;
  std::mt19937_64 random(settings.seed);
  std::vector<int64_t> chosen;
  std::ranges::sample(all, std::back_inserter(chosen), settings.samples, random);
  if (call.forward()->moved_axis(call.element_id(gradient, 0))) {
    std::vector<std::pair<double, int64_t>> near;
    for (const int64_t flat : all) {
      const ElementId id = call.element_id(gradient, flat);
      near.push_back({distance_to_kink(call, id, *call.forward()->moved_axis(id)), flat});
    }
    std::ranges::nth_element(near, near.begin() + settings.samples);
    for (int64_t i = 0; i < settings.samples; ++i) chosen.push_back(near[static_cast<size_t>(i)].second);
  }
  std::ranges::sort(chosen);
  const auto repeated = std::ranges::unique(chosen);
  chosen.erase(repeated.begin(), repeated.end());
  return chosen;
}

// Returns by how many times its bound a value is off.
double excess(const FailedElement& failed) { return failed.checked.distance / failed.checked.bound; }

void add_failure(SideCheck& check, FailedElement failed) {
  ++check.failed;
  check.worst.push_back(std::move(failed));
  std::ranges::stable_sort(check.worst, std::greater{}, excess);
  if (check.worst.size() > kMostWorst) check.worst.pop_back();
}

}  // namespace

std::vector<GradientCheck> gradcheck(const Call& call, std::span<const Side> given, const GradcheckSettings& settings) {
  std::vector<Side> sides(given.begin(), given.end());
  const auto cache = call.new_cache();
  std::vector<GradientCheck> checks;
  for (const Gradient gradient : call.gradients()) {
    GradientCheck& check = checks.emplace_back();
    check.gradient = gradient;
    check.total = kernels::elements_of(call.shape_of(gradient));
    for (Side& side : sides) {
      if (!side.of(gradient)) continue;
      if (side.source == Source::kRecorded) {
        side.arithmetic[gradient.place()] = detect_arithmetic(call, side, gradient, *cache);
      }
      check.sides.push_back({side.name, 0, 0, 0, {}});
    }
    const std::vector<int64_t> elements = choose(call, gradient, settings);
    check.sampled = static_cast<int64_t>(elements.size());
    std::mutex mutex;
    const int threads = kernels::thread_count(settings.threads, check.sampled);
    kernels::parallel_for(check.sampled, threads, [&](int64_t i, int) {
      const ElementId id = call.element_id(gradient, elements[static_cast<size_t>(i)]);
      const auto exact = derivatives_of(call, id, Precision::of(MSDA_FLOAT64));
      std::vector<std::optional<CheckedValue>> values;
      for (const Side& side : sides) {
        if (!side.of(gradient)) continue;
        const Precision precision = Precision::of(side.arithmetic_of(gradient));
        const bool same = !call.forward()->moved_axis(id) || precision.bits == Precision::of(MSDA_FLOAT64).bits;
        const auto derivatives = same ? exact : derivatives_of(side.version_of(call), id, precision);
        values.push_back(derivatives ? check_value(call, side, id, *derivatives, *cache) : std::nullopt);
      }
      const double naive = naive_derivative(call, id);
      const std::lock_guard lock(mutex);
      const bool kink = exact && exact->kink;
      check.at_kinks += kink;
      for (size_t side = 0; side < values.size(); ++side) {
        SideCheck& result = check.sides[side];
        ++(values[side] ? result.checked : result.not_checked);
        if (values[side] && !values[side]->passes) {
          add_failure(result, {id, *values[side], exact.value_or(Derivatives{})});
        }
      }
      if (values.empty() || !values.front()) return;
      const double analytic = values.front()->value;
      const bool naive_holds = std::abs(analytic - naive) <= kNaiveAtol + kNaiveRtol * std::abs(naive);
      check.naive_failed += !naive_holds;
      check.naive_failed_at_kinks += !naive_holds && (kink || steps_over_kink(call, id));
    });
  }
  return checks;
}

}  // namespace msda::analysis
