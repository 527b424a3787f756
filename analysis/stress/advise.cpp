#include "analysis/stress/advise.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <span>

#include "analysis/model/hypotheses.h"

namespace msda::analysis::stress {
namespace {

// Without the numbers that name one sample among others: "query 3, point 1, corner y0,x1" and "corners (y0,x0)".
std::string kind_of(const std::string& text) {
  std::string kind;
  for (const char c : text) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit) kind += c;
    if (digit && (kind.empty() || kind.back() != '#')) kind += '#';
  }
  return kind;
}

// Returns some elements of a gradient, spread over its families.
std::vector<int64_t> some_elements(const Call& call, Gradient gradient, int64_t most) {
  const int64_t elements = kernels::elements_of(call.shape_of(gradient));
  std::vector<int64_t> chosen;
  // A step that shares no factor with usual sizes reaches every batch, head, level and axis.
  const int64_t count = std::min(most, elements),
                step = std::max<int64_t>(1, elements / std::max<int64_t>(1, count)) | 1;
  for (int64_t i = 0; i < count; ++i) chosen.push_back(i * step % elements);
  return chosen;
}

struct TailFit {
  double shape = 0, scale = 0;  // of a generalized Pareto distribution
};

// Fits `tail`, sorted from the largest, beyond `begin` by probability-weighted moments (Hosking and Wallis, 1987). The
// shape is taken two standard errors heavier than estimated, since a tail that is taken too short makes a test fail.
TailFit fit_tail(std::span<const double> tail, double begin) {
  constexpr double kHeaviest = 0.5;
  const auto count = static_cast<double>(tail.size());
  double mean = 0, weighted = 0;  // weighted by the share of larger ones
  for (size_t i = 0; i < tail.size(); ++i) {
    mean += (tail[i] - begin) / count;
    weighted += (tail[i] - begin) / count * (static_cast<double>(i) + 0.35) / count;
  }
  const double spread = mean - 2 * weighted;
  const double estimate = spread > 0 ? std::max(0.0, 2 - mean / spread) : 0;
  const double shape = std::min(estimate + 2 / std::sqrt(count), kHeaviest);
  return {shape, mean * (1 - shape)};
}

}  // namespace

double units_needed(const Call& call, const Arithmetic& observed, const Arithmetic& expected) {
  const Precision precision = Precision::of(call.arithmetic());
  double most = 0;
  for (const Gradient gradient : call.gradients()) {
    if (gradient.scattered()) continue;
    const int64_t elements = kernels::elements_of(call.shape_of(gradient));
    for (int64_t flat = 0; flat < elements; ++flat) {
      for (const Axis& axis : call.axes({gradient, flat, {}})) {
        double error = 0;
        for (const Arithmetic* by : {&observed, &expected}) {
          if (by->mode != MSDA_MODE_FLOAT64) {
            error = std::max(error, by->version_of(call).coordinate(axis, precision).error);
          }
        }
        if (axis.size > 0) most = std::max(most, error / (0x1p-23 * axis.size));
      }
    }
    break;  // gradients of samples share their coordinates
  }
  return std::ceil(most);
}

double tolerance_of_all_but(double share, std::vector<double> needed, int64_t slices, double least) {
  if (needed.empty() || slices <= 0) return least;
  std::ranges::sort(needed, std::greater<>());
  const size_t tail = std::clamp<size_t>(static_cast<size_t>(slices / 50), 1, needed.size());
  const double begin = tail < needed.size() ? needed[tail] : least;
  const double part = static_cast<double>(tail) / static_cast<double>(slices);
  if (part <= share) return needed.front();
  const auto [shape, scale] = fit_tail({needed.data(), tail}, begin);
  const double times = part / share;
  const double beyond = shape > 0 ? (std::pow(times, shape) - 1) / shape : std::log(times);
  return std::max(needed.front(), begin + scale * beyond);
}

std::vector<Fault> plant_faults(const Call& call, const Tolerance& tolerance, const Mask& mask, int64_t most) {
  const Precision precision = Precision::of(MSDA_FLOAT64);
  const auto cache = call.new_cache();
  std::map<std::pair<std::string, std::string>, Fault> faults;
  for (const Gradient gradient : call.gradients()) {
    for (const int64_t flat : some_elements(call, gradient, most)) {
      const ElementId id = call.element_id(gradient, flat);
      Place place;
      for (const Axis& axis : call.axes(id)) place.push_back(call.landings(axis, precision).front());
      const Element exact = call.element(id, place, {precision, precision}, nullptr, *cache);
      auto mistakes = call.hypotheses() != nullptr ? call.hypotheses()->mistakes(id, place, exact, precision, *cache)
                                                   : std::vector<Mistake>{};
      mistakes.push_back({kZeroThroughout, 0});
      mistakes.push_back({"it were a tenth too large", 1.1 * exact.value});
      mistakes.push_back({"it had the other sign", -exact.value});
      const bool hidden = mask.hides(call, id);
      for (const Mistake& mistake : mistakes) {
        if (mistake.value == exact.value || !std::isfinite(mistake.value)) continue;
        const std::string kind = kind_of(mistake.text);
        Fault& fault = faults[{gradient.name(), kind}];
        fault.text = kind;
        fault.tensor = gradient.name();
        ++fault.tried;
        fault.found += !hidden && !tolerance.holds(mistake.value, exact.value);
      }
    }
  }
  std::vector<Fault> all;
  for (const auto& [key, fault] : faults) all.push_back(fault);
  return all;
}

}  // namespace msda::analysis::stress
